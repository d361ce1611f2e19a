// MeetingKeys: the two keys in etcd by which agents find the rendezvous of their job, and agree on
// who starts it. They are the leader key of the rendezvous (docs/ha.md), and PREFIX/start.
//
// Thread-safe. Each call blocks, for a limited time.
#ifndef DDPRUN_LAUNCHER_CONNECTION_ETCD_MEETING_KEYS_H_
#define DDPRUN_LAUNCHER_CONNECTION_ETCD_MEETING_KEYS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/config/etcd/etcd_access.h"
#include "launcher/connection/etcd/meeting_search.h"
#include "rendezvous/etcd/etcd_client.h"

namespace ddprun {

class MeetingKeys {
 public:
  static constexpr std::chrono::milliseconds kLimit{800};

  // Reads the files of `etcd`; connects to nobody yet. Errors, for people: those of
  // etcd::Client::Create.
  static absl::StatusOr<std::shared_ptr<const MeetingKeys>> Open(const EtcdAccess& etcd);
  MeetingKeys(std::unique_ptr<etcd::Client> client, const std::string& prefix);

  // A linearizable read. The error says why etcd did not answer.
  absl::StatusOr<MeetingSearch::Seen> Read() const;
  // Writes the start key if it still has this revision. The next read shows the result.
  absl::Status Claim(std::uint64_t revision, const std::string& claimant) const;

 private:
  const std::unique_ptr<etcd::Client> client_;
  const std::string leader_key_;
  const std::string start_key_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_ETCD_MEETING_KEYS_H_
