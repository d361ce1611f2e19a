// RendezvousHost: if the endpoint's address belongs to this host, runs the rendezvous of a job here
// as a process of its own.
//
// The process is `ddprun rendezvous --until-idle`. It is detached: it survives this agent, and ends
// by itself after the job. If several agents run on this host, one of them starts the process
// (StartRight). If several processes are started nevertheless, one of them holds the endpoint's
// folder (state_home.h) and listens, and the others end. The folder also has the jobs' durable
// state. If the process is killed, an agent of this user may start the next one, which continues
// the jobs.
//
// The agent's thread only.
#ifndef DDPRUN_LAUNCHER_CONNECTION_RENDEZVOUS_HOST_H_
#define DDPRUN_LAUNCHER_CONNECTION_RENDEZVOUS_HOST_H_

#include <chrono>
#include <functional>
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

// The address on which a rendezvous for the endpoint `host` listens. `address`: the address of
// `host` on this machine. The result is `address` or the wildcard address.
std::string AddressToListenOn(const std::string& host, const std::string& address);

// FailedPrecondition, for people: a rendezvous there would be open to others. `place` is part of a
// sentence, such as "at HOST:PORT".
absl::Status OpenToOthers(const std::string& place);

// The end of a rendezvous that this agent started. `place` is part of a sentence, such as
// "on HOST:PORT".
struct RendezvousEnd {
  std::string why;     // a sentence for people
  bool final = false;  // the next one would end in the same way
};
RendezvousEnd EndOfRendezvous(const std::string& place, const DetachedProcess::Ended& ended,
                              const std::string& log_file);

class RendezvousHost {
 public:
  struct Options {
    std::string host;  // of the endpoint, without brackets
    int port = 0;
    bool insecure = false;                   // allowed to serve other hosts without authentication
    bool asks_who_calls = false;             // with `credentials` it authenticates its callers
    std::vector<std::string> credentials{};  // flags for it; file names, nothing secret
    std::string log_file;                    // for the output of the rendezvous
  };

  // nullptr: the endpoint is on another host. May block on a name server. Errors: NotFound if the
  // name does not resolve. FailedPrecondition if StateHome() fails; or if no process listens, and a
  // rendezvous started here would be open to others without credentials. `loop` must outlive this
  // object.
  static absl::StatusOr<std::unique_ptr<RendezvousHost>> Create(Options options, EventLoop* loop);

  // Starts the rendezvous, unless a process listens on the endpoint or the rendezvous started last
  // is about to listen. Call it again while there is no connection: the process that listens may be
  // the rendezvous of an earlier job, which is about to end. False: the process that listens was
  // not started by this agent.
  bool EnsureRunning();

  // True if a process listens on the endpoint; it need not be a rendezvous.
  bool SomebodyListensHere() const;
  // True if a daemon of this user holds the folder of the endpoint (state_home.h), even if it
  // is too slow to answer.
  bool HasRendezvous() const;
  // The rendezvous started last runs.
  bool running() { return process_.running(); }
  // Called on the loop with the reason, if a rendezvous that was started here has ended and the
  // next one would end in the same way.
  void WhenUseless(std::function<void(const std::string& why)> useless) {
    useless_ = std::move(useless);
  }

 private:
  RendezvousHost(Options options, std::string address, std::string listen_address, EventLoop* loop);
  void OnEnded(const DetachedProcess::Ended& ended);

  const Options options_;
  const std::string address_;         // numeric address of this host, to look for a listener
  const std::string listen_address_;  // the same, or every address
  std::function<void(const std::string&)> useless_;
  std::string logged_;  // the reason of the last end
  DetachedProcess process_;
};

// The right to start the rendezvous of one job on this host. Normally one agent of a user has it at
// a time, until the rendezvous that it has started listens or ends. Without this right, all agents
// of the host would each start a rendezvous, and all but one of these processes would end again.
class StartRight {
 public:
  // `name`: of the job's rendezvous; the same in all agents of the job.
  explicit StartRight(std::string name) : name_(std::move(name)) {}

  // False: another agent has the right. From `kPatience` after the first refusal on it returns true
  // anyway, because the other agent may have failed. Two agents may then try at the same time; the
  // lock of the rendezvous' folder decides.
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
// tried. A *place* is an index into this list. The agent's thread only.
class RendezvousHosts {
 public:
  // `name`: the same in all agents that may start it on this host.
  RendezvousHosts(std::vector<std::unique_ptr<RendezvousHost>> hosts, std::string name,
                  bool only_at_first);

  // Like RendezvousHost::EnsureRunning for this place, before an attempt to connect there. If a
  // process listens at one of the places, it may be the rendezvous that an earlier agent has
  // started. Then this agent starts no rendezvous before it has tried every place. While a
  // rendezvous of this user has one of the places, the agent starts none at another place: with two
  // rendezvous, the job's agents would split into two groups, and each group would wait for the
  // nodes of the other. A rendezvous that refused our credentials belongs to another job, and does
  // not count.
  bool EnsureRunning(int place);

  // The rendezvous at this place refuses our credentials.
  void OnDenied(int place) { denied_.insert(place); }

  // Sets what is called if a rendezvous of this agent has ended, and the next one at its place
  // would end in the same way. `skip`: another place has not failed in this way yet. `useless`,
  // with the reason: every place has, and the first failure was at least kUselessFor ago. Called on
  // the loop, and not after OnHeard().
  void WhenUseless(std::function<void()> skip,
                   std::function<void(const std::string& why)> useless) {
    skip_ = std::move(skip);
    useless_ = std::move(useless);
  }

  // Call it when a rendezvous has sent a message. With `only_at_first`, this agent starts no
  // rendezvous from now on, unless it has started one before: a user may have started this one, and
  // may start it again.
  void OnHeard() {
    heard_ = true;
    left_alone_ = only_at_first_ && !has_started_;
    useless_since_.reset();
    useless_places_.clear();
  }

 private:
  // A full disk, for example, may soon have room again.
  static constexpr std::chrono::milliseconds kUselessFor{1000};

  void OnUseless(int place, const std::string& why);

  const std::vector<std::unique_ptr<RendezvousHost>> hosts_;
  const bool only_at_first_;
  std::set<int> tried_;
  std::set<int> denied_;
  std::set<int> useless_places_;
  std::optional<std::chrono::steady_clock::time_point> useless_since_;
  std::function<void()> skip_;
  std::function<void(const std::string&)> useless_;
  StartRight right_;
  int started_ = 0;  // the place for which right_ was taken
  bool has_started_ = false;
  bool left_alone_ = false;
  bool heard_ = false;  // a failure after this has a new cause, which may go away
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_RENDEZVOUS_HOST_H_
