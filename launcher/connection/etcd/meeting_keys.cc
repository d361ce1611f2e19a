#include "launcher/connection/etcd/meeting_keys.h"

#include "absl/strings/str_cat.h"
#include "launcher/connection/etcd_client_options.h"
#include "rendezvous/etcd/state_map.h"
#include "rendezvous/service/leadership/leader_record_proto.h"

namespace ddprun {

absl::StatusOr<std::shared_ptr<const MeetingKeys>> MeetingKeys::Open(const EtcdAccess& etcd) {
  auto client = etcd::Client::Create(ClientOptionsOf(etcd));
  if (!client.ok()) return client.status();
  return std::make_shared<const MeetingKeys>(*std::move(client), etcd.prefix);
}

MeetingKeys::MeetingKeys(std::unique_ptr<etcd::Client> client, const std::string& prefix)
    : client_(std::move(client)),
      leader_key_(etcd::StateMap(prefix).leader_key()),
      start_key_(absl::StrCat(prefix, "/start")) {}

absl::StatusOr<MeetingSearch::Seen> MeetingKeys::Read() const {
  const auto answer = client_->Transact({}, {}, {leader_key_, start_key_}, kLimit);
  if (!answer.ok()) return answer.status();
  MeetingSearch::Seen seen;
  for (const etcd::KeyValue& found : answer->found) {
    if (found.key == start_key_) {
      seen.claim_revision = found.mod_revision;
      seen.claimant = found.value;
      continue;
    }
    seen.leader_revision = found.mod_revision;
    const auto record = DecodeLeaderRecord(found.value);
    if (record && !record->resigned) seen.endpoint = record->endpoint;
  }
  return seen;
}

absl::Status MeetingKeys::Claim(std::uint64_t revision, const std::string& claimant) const {
  return client_->Transact({{start_key_, revision}}, {{start_key_, claimant}}, {}, kLimit).status();
}

}  // namespace ddprun
