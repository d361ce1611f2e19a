#include "rendezvous/service/leadership/leader_key.h"

#include <optional>
#include <utility>

#include "rendezvous/service/leadership/leader_record_proto.h"
#include "rendezvous/service/leadership/validity.h"

namespace ddprun {

absl::StatusOr<Leadership::LeaderSeen> LeaderKey::Read() const {
  const auto answer = client_->Transact({}, {}, {key_}, kLimit);
  if (!answer.ok()) return answer.status();
  Leadership::LeaderSeen seen;
  seen.cluster = answer->cluster;
  if (answer->found.empty()) return seen;
  seen.revision = answer->found.front().mod_revision;
  seen.record = DecodeLeaderRecord(answer->found.front().value);
  return seen;
}

std::unique_ptr<etcd::Watch> LeaderKey::Watch(
    std::function<void(Leadership::LeaderSeen)> on_seen) const {
  return client_->WatchKey(key_, [on_seen = std::move(on_seen)](const etcd::KeyState& state) {
    Leadership::LeaderSeen seen{state.cluster, state.mod_revision, std::nullopt};
    if (state.value) seen.record = DecodeLeaderRecord(*state.value);
    on_seen(std::move(seen));
  });
}

absl::StatusOr<Leadership::PutAnswered> LeaderKey::Put(const Leadership::PutLeader& put) const {
  Leadership::PutAnswered result;
  result.sent_at = BootTime();
  const auto answer =
      client_->Transact({{key_, put.guard}}, {{key_, EncodeLeaderRecord(put.record)}}, {}, kLimit);
  if (!answer.ok()) return answer.status();
  result.taken = answer->guarded;
  if (result.taken) result.term = {answer->cluster, answer->revision};
  return result;
}

absl::StatusOr<Leadership::RenewAnswered> LeaderKey::Renew(const Term& term) const {
  Leadership::RenewAnswered result;
  result.sent_at = BootTime();
  const auto answer = client_->Transact({{key_, term.revision}}, {}, {key_}, kLimit);
  if (!answer.ok()) return answer.status();
  result.found.cluster = answer->cluster;
  result.revision = answer->revision;
  if (!answer->found.empty()) result.found.revision = answer->found.front().mod_revision;
  return result;
}

}  // namespace ddprun
