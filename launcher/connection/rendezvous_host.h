// RendezvousHost: has the rendezvous of a job run on this host, as a process of its own, where the
// address of the endpoint is this host's.
//
// That process is `ddprun rendezvous --until-idle`. It is detached: when this agent is killed, the
// other nodes do not lose their rendezvous with it; and it ends by itself after the job. Of several
// agents of this host one starts it (StartRight); where that fails, one holds the endpoint's folder
// (state_home.h) and listens, and the others end. Its jobs are in that folder: where it is killed,
// the next one goes on with them, whichever agent of this user starts it.
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

// For the first agent of a rendezvous that an agent starts (--until-idle).
inline constexpr char kFirstAgentWithin[] = "60s";

// Where one listens that others reach at `host`, whose address on this host is `address`: there, or
// at every address.
std::string AddressToListenOn(const std::string& host, const std::string& address);

// FailedPrecondition, for people: a rendezvous at `place` (HOST:PORT, or a sentence's part) would
// be open to others.
absl::Status OpenToOthers(const std::string& place);

class RendezvousHost {
 public:
  struct Options {
    std::string host;  // of the endpoint, without brackets
    int port = 0;
    bool insecure = false;        // it may listen beyond this host although it asks nobody
    bool asks_who_calls = false;  // with `credentials`
    std::vector<std::string> credentials{};  // flags for it; file names, nothing secret
    std::string log_file;                    // for what the rendezvous says
  };

  // nullptr when the endpoint lives elsewhere. May block on a name server. Errors: NotFound when
  // the name does not resolve; FailedPrecondition when nobody listens, and a rendezvous here would
  // be open to others without credentials, or could not keep its jobs (StateHome).
  // `loop` must outlive this object.
  static absl::StatusOr<std::unique_ptr<RendezvousHost>> Create(Options options, EventLoop* loop);

  // Starts the rendezvous, unless somebody listens on the endpoint or the one that was started last
  // is about to. Call it again while no connection comes about: the rendezvous of an earlier job
  // may have been listening for the last time. False: who listens was not started by us.
  bool EnsureRunning();

  // Somebody does, who may not be a rendezvous.
  bool SomebodyListensHere() const;
  // A rendezvous that an agent of this user has started has the endpoint. It may be too slow to
  // answer.
  bool HasRendezvous() const;
  // The one that was started last.
  bool running() { return process_.running(); }

 private:
  RendezvousHost(Options options, std::string address, std::string listen_address, EventLoop* loop);

  const Options options_;
  const std::string address_;         // this host's own, numeric: where to look for a listener
  const std::string listen_address_;  // the same, or every address
  DetachedProcess process_;
};

// The right to start the rendezvous of one job on this host, which one agent of a user has at a
// time, until its rendezvous listens: the others would start more of them, which only end again.
class StartRight {
 public:
  // `name`: of the job's rendezvous; the same in all of these agents.
  explicit StartRight(std::string name) : name_(std::move(name)) {}

  // False: another agent has it. Not for longer than `kPatience`: whoever keeps it does not start
  // anything.
  bool Take();
  bool taken() const { return socket_.valid(); }
  void GiveBack() { socket_.reset(); }

 private:
  static constexpr std::chrono::seconds kPatience{5};

  const std::string name_;
  UniqueFd socket_;  // whose name is the right: the kernel takes it back when we die
  std::optional<std::chrono::steady_clock::time_point> refused_since_;
};

// The ports of one job where its rendezvous may run on this host, in the order in which they are
// tried. The agent's thread only.
class RendezvousHosts {
 public:
  // `name`: the same in all agents that may start it on this host.
  RendezvousHosts(std::vector<std::unique_ptr<RendezvousHost>> hosts, std::string name,
                  bool only_at_first);

  // As of the RendezvousHost of this place, before an attempt to connect there. A listener at
  // another place may be the rendezvous that an agent before this one has started: it is tried
  // first. While a rendezvous of this user has one of the places, none is started at another one:
  // with two, some agents of the job would join the first and some the second, and both would wait
  // for the missing ones. A rendezvous that has denied us is that of another job, and does not
  // count.
  bool EnsureRunning(int place);

  // The rendezvous at this place does not take our credentials.
  void OnDenied(int place) { denied_.insert(place); }

  // A rendezvous has said something. With `only_at_first` nothing is started from now on, unless
  // this agent had started it: it is its user's, who may start it again.
  void OnHeard() { left_alone_ = only_at_first_ && !has_started_; }

 private:
  const std::vector<std::unique_ptr<RendezvousHost>> hosts_;
  const bool only_at_first_;
  std::set<int> tried_;
  std::set<int> denied_;
  StartRight right_;
  int started_ = 0;  // the place for which we have taken it
  bool has_started_ = false;
  bool left_alone_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_RENDEZVOUS_HOST_H_
