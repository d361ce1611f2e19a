// ForkServer: decides when this node's fork server runs, and whether workers can be forked.
//
// The fork server is a Python interpreter that has imported the modules of --preload. For each
// request it forks a process that waits as a standby (launcher/python/fork_server.py). This class
// starts no process: it is a pure state machine. An event and the time go in, actions come out.
// launcher/agent/standbys/fork_server_process.h performs them.
//
//                  ServerReady
//     Importing ───────────────▶ Serving
//      ▲  │                         │ it has ended, or does not answer
//      │  └──────── it has ended ───┤
//      │ a pause is over            ▼
//      └──────────────────────── Paused
//
//     any of these: the server must not be forked, its first imports fail, imports take too
//                   long, or it ended early four times in a row ──▶ Unfit, for good
//     any state ── the job ends ──▶ Closed
//
// The end of the fork server is no failure: no worker is its child.
#ifndef DDPRUN_LAUNCHER_CORE_FORK_SERVER_H_
#define DDPRUN_LAUNCHER_CORE_FORK_SERVER_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

enum class ForkServerState { kOff, kImporting, kServing, kPaused, kUnfit, kClosed };
const char* ToString(ForkServerState state);

class ForkServer {
 public:
  struct Options {
    Duration import_limit = std::chrono::minutes(5);  // from its start until it can fork
    Duration fork_limit = std::chrono::seconds(10);   // for each requested process
    // An end is *early* if the server has not yet been in Serving for this time.
    Duration steady = std::chrono::seconds(10);
    Duration backoff = std::chrono::seconds(1);  // after an early end; doubles with the next
    int give_up_after = 4;                       // early ends in a row
  };
  using Number = int;  // of a requested process

  // ---- events ----
  struct JobStarted {};
  struct ServerReady {};
  // The server has imported the modules, but reports why it must not be forked. It ends itself.
  struct ServerUnfit {
    std::string why;
  };
  // It ended, or could not be started.
  struct ServerEnded {
    std::string how;  // for people: "by exit code 1 (ModuleNotFoundError: ...)"
  };
  struct ForkAsked {
    Number number = 0;
  };
  // The requested process waits as a standby, or is no longer needed.
  struct ForkAnswered {
    Number number = 0;
  };
  struct JobEnded {};
  struct Tick {};
  using Event = std::variant<JobStarted, ServerReady, ServerUnfit, ServerEnded, ForkAsked,
                             ForkAnswered, JobEnded, Tick>;

  // ---- actions ----
  struct StartServer {  // answer: ServerReady or ServerUnfit, and ServerEnded when it ends
    bool operator==(const StartServer&) const = default;
  };
  struct EndServer {  // kill it; no event about it may follow
    bool operator==(const EndServer&) const = default;
  };
  // A line for the log.
  struct Note {
    std::string text;
    bool operator==(const Note&) const = default;
  };
  using Action = std::variant<StartServer, EndServer, Note>;

  explicit ForkServer(Options options) : options_(std::move(options)) {}

  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next; nullopt: nothing is timed.
  std::optional<TimePoint> NextDeadline() const;

  ForkServerState state() const { return state_; }

 private:
  void Start(TimePoint now);
  void OnEnded(const std::string& how, TimePoint now);
  void OnTick(TimePoint now);
  void GiveUp(const std::string& why);

  const Options options_;

  ForkServerState state_ = ForkServerState::kOff;
  TimePoint since_{};                  // kImporting, kServing: begin of the state; kPaused: its end
  std::map<Number, TimePoint> asked_;  // kServing: unanswered requests
  bool has_served_ = false;
  int early_ends_ = 0;  // in a row

  std::vector<Action> actions_;  // of the Step in progress
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_FORK_SERVER_H_
