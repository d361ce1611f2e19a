// RendezvousHost: runs the rendezvous of a job as a process of its own on this host, if the
// endpoint's address belongs to this host.
//
// That process is `ddprun rendezvous --until-idle`. It is detached: it survives this agent, and
// ends by itself after the job. If several agents run on this host, one of them starts it
// (StartRight). If nevertheless several are started, one holds the endpoint's folder (state_home.h)
// and listens, and the others end. Its jobs are in that folder. If it is killed, any agent of this
// user may start the next one, which continues the jobs.
//
// The agent's thread only.
#ifndef DDPRUN_LAUNCHER_CONNECTION_RENDEZVOUS_HOST_H_
#define DDPRUN_LAUNCHER_CONNECTION_RENDEZVOUS_HOST_H_

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/process/detached_process.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

// How long a rendezvous that an agent starts waits for its first agent (--until-idle).
inline constexpr char kFirstAgentWithin[] = "60s";

// The address on which a rendezvous for the endpoint `host` listens. `address`: of `host` on this
// host. The result is `address`, or every address.
std::string AddressToListenOn(const std::string& host, const std::string& address);

// FailedPrecondition, for people: a rendezvous at `place` (HOST:PORT, or a sentence's part) would
// be open to others.
absl::Status OpenToOthers(const std::string& place);

class RendezvousHost {
 public:
  struct Options {
    std::string host;  // of the endpoint, without brackets
    int port = 0;
    bool insecure = false;        // it may listen beyond this host without authentication
    bool asks_who_calls = false;  // with `credentials`
    std::vector<std::string> credentials{};  // flags for it; file names, nothing secret
    std::string log_file;                    // for the output of the rendezvous
  };

  // nullptr: the endpoint is on another host. May block on a name server. Errors: NotFound if the
  // name does not resolve; FailedPrecondition if nobody listens, and a rendezvous here would be
  // open to others without credentials or could not keep its jobs (StateHome). `loop` must outlive
  // this object.
  static absl::StatusOr<std::unique_ptr<RendezvousHost>> Create(Options options, EventLoop* loop);

  // Starts the rendezvous, unless a process listens on the endpoint, or the rendezvous started last
  // is about to. Call it again while there is no connection: the listening process may be the
  // rendezvous of an earlier job, about to end. False: another process listens, not started by us.
  bool EnsureRunning();

  // A process listens on the endpoint. It may not be a rendezvous.
  bool SomebodyListensHere() const;
  // A rendezvous that an agent of this user has started has the endpoint. It may be too slow to
  // answer.
  bool HasRendezvous() const;
  // The rendezvous started last runs.
  bool running() { return process_.running(); }

 private:
  RendezvousHost(Options options, std::string address, std::string listen_address, EventLoop* loop);

  const Options options_;
  const std::string address_;         // this host's own, numeric: where to look for a listener
  const std::string listen_address_;  // the same, or every address
  DetachedProcess process_;
};

// The right to start the rendezvous of one job on this host. One agent of a user has it at a time,
// until its rendezvous listens. Without it, all agents of the host would start a rendezvous, and
// all but one would end again.
class StartRight {
 public:
  // `name`: of the job's rendezvous; the same in all agents of the job.
  explicit StartRight(std::string name) : name_(std::move(name)) {}

  // False: another agent has the right. After `kPatience` it returns true anyway: by then the other
  // agent has failed to start a rendezvous.
  bool Take();
  bool taken() const { return socket_.valid(); }
  void GiveBack() { socket_.reset(); }

 private:
  static constexpr std::chrono::seconds kPatience{5};

  const std::string name_;
  UniqueFd socket_;  // its name is the right; the kernel frees the name when this process ends
  std::optional<std::chrono::steady_clock::time_point> refused_since_;
};

// The ports of one job where its rendezvous may run on this host, in the order in which they are
// tried. The agent's thread only.
class RendezvousHosts {
 public:
  // `name`: the same in all agents that may start it on this host.
  RendezvousHosts(std::vector<std::unique_ptr<RendezvousHost>> hosts, std::string name,
                  bool only_at_first);

  // Like RendezvousHost::EnsureRunning for this place, before an attempt to connect there. A
  // process that listens at another place may be the rendezvous that an earlier agent has started:
  // that place is tried first. While a rendezvous of this user has one of the places, none is
  // started at another place. With two rendezvous, the agents of the job would split up, and both
  // halves would wait for the missing nodes. A rendezvous that refused our credentials belongs to
  // another job, and does not count.
  bool EnsureRunning(int place);

  // The rendezvous at this place refuses our credentials.
  void OnDenied(int place) { denied_.insert(place); }

  // A rendezvous has sent a message. With `only_at_first` this agent starts none from now on,
  // unless it started this one: otherwise a user started it, and may start it again.
  void OnHeard() { left_alone_ = only_at_first_ && !has_started_; }

 private:
  const std::vector<std::unique_ptr<RendezvousHost>> hosts_;
  const bool only_at_first_;
  std::set<int> tried_;
  std::set<int> denied_;
  StartRight right_;
  int started_ = 0;  // the place for which right_ was taken
  bool has_started_ = false;
  bool left_alone_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_RENDEZVOUS_HOST_H_
