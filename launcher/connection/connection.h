// How this agent reaches the rendezvous of its job. The rendezvous runs in this process (one node),
// where its user started it, or in a process that an agent starts.
//
// The agent's thread only.
#ifndef DDPRUN_LAUNCHER_CONNECTION_CONNECTION_H_
#define DDPRUN_LAUNCHER_CONNECTION_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/agent/run/run_directory.h"
#include "launcher/config/job_config.h"
#include "launcher/connection/etcd/etcd_meeting.h"
#include "launcher/connection/leader_watch.h"
#include "launcher/connection/own_rendezvous.h"
#include "launcher/connection/rendezvous_host.h"
#include "launcher/connection/shared_place.h"
#include "launcher/os/event_loop.h"
#include "rendezvous/client/rendezvous_client.h"

namespace ddprun {

// "[::1]:29400" → "::1", 29400. For another endpoint ("", "unix:/path") the host is not an address.
std::string HostOf(const std::string& endpoint);
int PortOf(const std::string& endpoint);

// The endpoints at which a rendezvous may be: those of several rendezvous that share an etcd, or
// the port of one rendezvous and its spare ports. For a standalone job, and for a job that
// finds the rendezvous through etcd, the result names no rendezvous.
std::vector<std::string> PlacesOf(const RendezvousConfig& config);

// The address at which other nodes reach this node. May block on a name server.
absl::StatusOr<std::string> NodeAddress(const JobConfig& config);

// The warning for a job on several hosts without --rdzv-id; "": no warning.
std::string WarnOfName(const JobConfig& config, const std::string& node_address);

struct Connection {
  std::string node_address;  // of this node, for the others
  // In the order in which they must be made; each but `client` may be null.
  std::unique_ptr<OwnRendezvous> own;  // of a standalone job
  std::unique_ptr<RendezvousHosts> hosts;
  std::unique_ptr<EtcdMeeting> etcd;         // with --rdzv-backend etcd
  std::unique_ptr<RendezvousClient> client;  // not open yet
  std::unique_ptr<LeaderWatch> leader;       // of several rendezvous: tells `client` which leads
};

// `version`: of this program, for a rendezvous in this process. `seed`: of the jitter between
// attempts to connect, different for each agent. `heard_at` gets the place of the rendezvous,
// except in a standalone job and with --rdzv-backend etcd. `heard_at` and `loop` must outlive the
// result. May block on a name server. Errors are sentences for the user. FailedPrecondition: the
// credentials are unusable, or a rendezvous here would need --insecure. PermissionDenied: munged
// does not run on this host. Internal: the rendezvous cannot run in this process. Others: the
// endpoint cannot be found.
absl::StatusOr<Connection> PrepareConnection(const JobConfig& config, const RunDirectory& run,
                                             const std::string& version, std::uint64_t seed,
                                             SharedPlace* heard_at, EventLoop* loop);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_CONNECTION_H_
