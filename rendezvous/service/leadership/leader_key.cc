#include "rendezvous/service/leadership/leader_key.h"

#include <optional>
#include <utility>

#include "rendezvous/service/leadership/leader_record_proto.h"
#include "rendezvous/service/leadership/validity.h"

namespace ddprun {

absl::StatusOr<Leadership::LeaderSeen> LeaderKey::Read() const {
  Leadership::LeaderSeen seen;
  seen.sent_at = BootTime();
  const auto answer = client_->Transact({}, {}, {key_}, kLimit);
  if (!answer.ok()) return answer.status();
  seen.cluster = answer->cluster;
  if (answer->found.empty()) return seen;
  seen.revision = answer->found.front().mod_revision;
  Remember({seen.cluster, seen.revision, answer->found.front().value});
  seen.record = DecodeLeaderRecord(answer->found.front().value);
  return seen;
}

std::unique_ptr<etcd::Watch> LeaderKey::Watch(
    std::function<void(Leadership::LeaderSeen)> on_seen) const {
  return client_->WatchKey(key_, [this, on_seen = std::move(on_seen)](const etcd::KeyState& state) {
    Remember(state);
    Leadership::LeaderSeen seen{state.cluster, state.mod_revision, std::nullopt, std::nullopt};
    if (state.value) seen.record = DecodeLeaderRecord(*state.value);
    on_seen(std::move(seen));
  });
}

absl::StatusOr<Leadership::PutAnswered> LeaderKey::Put(const Leadership::PutLeader& put) const {
  Leadership::PutAnswered result;
  // etcd is another cluster now: the write has no use there, and its guard might match by chance.
  if (HasLeft(put.cluster)) return result;
  result.sent_at = BootTime();
  const std::string value = EncodeLeaderRecord(put.record);
  const auto answer = client_->Transact({{key_, put.guard, ValueAt(put.cluster, put.guard)}},
                                        {{key_, value}}, {}, kLimit);
  if (!answer.ok()) return answer.status();
  result.taken = answer->guarded;
  if (!result.taken) return result;
  result.term = {answer->cluster, answer->revision};
  Remember({answer->cluster, answer->revision, value});
  return result;
}

void LeaderKey::Remember(const etcd::KeyState& seen) const {
  const std::lock_guard lock(mutex_);
  const bool older = seen.cluster == seen_.cluster && seen.mod_revision < seen_.mod_revision;
  if (!older) seen_ = seen;
}

bool LeaderKey::HasLeft(std::uint64_t cluster) const {
  const std::lock_guard lock(mutex_);
  return seen_.cluster != 0 && seen_.cluster != cluster;
}

std::optional<std::string> LeaderKey::ValueAt(std::uint64_t cluster, std::uint64_t revision) const {
  const std::lock_guard lock(mutex_);
  const bool known = seen_.cluster == cluster && seen_.mod_revision == revision;
  return known ? seen_.value : std::nullopt;
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
