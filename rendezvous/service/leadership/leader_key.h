// LeaderKey: reads, writes and confirms etcd's leader key, for Leadership. Read, Put and Renew
// block, for at most kLimit (longer while a token of etcd is needed: etcd_client.h).
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_KEY_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_KEY_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/leadership/leadership.h"

namespace ddprun {

class LeaderKey {
 public:
  static constexpr std::chrono::milliseconds kLimit{400};

  // `client` outlives this object.
  LeaderKey(etcd::Client* client, std::string key) : client_(client), key_(std::move(key)) {}

  // A linearizable read. The error says why etcd did not answer.
  absl::StatusOr<Leadership::LeaderSeen> Read() const;
  // Writes only if the key still has the revision `put.guard`, and the value that this object saw
  // at that revision.
  absl::StatusOr<Leadership::PutAnswered> Put(const Leadership::PutLeader& put) const;
  // A transaction that compares the term, with a linearizable read in both branches. Without the
  // read, one member of etcd would answer from its memory, and this member may be cut off from the
  // others.
  absl::StatusOr<Leadership::RenewAnswered> Renew(const Term& term) const;
  // Reports the key's state and its changes, on a thread of its own, until the watch is destroyed.
  std::unique_ptr<etcd::Watch> Watch(std::function<void(Leadership::LeaderSeen)> on_seen) const;

 private:
  void Remember(const etcd::KeyState& seen) const;
  // True if etcd's newest answer came from a cluster other than `cluster`.
  bool HasLeft(std::uint64_t cluster) const;
  std::optional<std::string> ValueAt(std::uint64_t cluster, std::uint64_t revision) const;

  etcd::Client* const client_;
  const std::string key_;
  mutable std::mutex mutex_;
  mutable etcd::KeyState seen_;  // the newest; guarded by mutex_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_KEY_H_
