// StandbyPool: decides which warm standbys this node keeps, and for which local ranks.
//
// A standby is a process of the job's command that was started ahead of time and waits to become a
// worker. This class starts no process: it is a pure state machine. An event and the time go in,
// actions come out. launcher/agent/standbys/standbys.h performs them.
//
//            GenerationStarted          it is settled
//     Idle ──────────────────▶ Settling ──────────────▶ Filling ──▶ (one standby after the other)
//       ▲                          │                       │
//       └────── GenerationEnded ───┴───────────────────────┘
//     any of these ── standbys end early four times in a row, or one loads too long
//                                                                 ──▶ GivenUp, for good
//     any of these ── the fork server cannot be used ─────────────▶ GivenUp, for good
//     any state ── JobEnded ──▶ Closed
//
// A generation is settled when each worker of this node has finished a step in it, or
// Options::settle (3 s) after its start. Except for StartComing (below), standbys start only then,
// so they do not slow down the start of workers. No standby is started before a worker of this job,
// here or on another node, has shown that its program can wait as a standby. A program that cannot
// wait would train in the standby, too. A forked process can always wait.
//
// Each standby is for one local rank, because arguments, devices and CPU caches may depend on it.
//
// A worker that has left its generation and keeps its process (STANDBY=waiting after LEAVE=1) also
// waits in the pool. It does not count as one of the wanted standbys, and is used before them.
//
// With a fork server (fork_server.h) a standby costs milliseconds. Then all standbys are made at
// once, and every start uses standbys: StartComing requests one for each local rank. StartCanBegin
// follows when all these standbys wait, when none can be expected now, or when the limit of
// StartComing is over. A worker without a standby is started directly.
//
// A node that joins a running job also uses StartComing, with program_waits. It needs no fork
// server: it loads the program in standbys before it gets its ranks, so that the other nodes do not
// wait.
#ifndef DDPRUN_LAUNCHER_CORE_STANDBY_POOL_H_
#define DDPRUN_LAUNCHER_CORE_STANDBY_POOL_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

enum class StandbyPoolState { kIdle, kSettling, kFilling, kGivenUp, kClosed };
const char* ToString(StandbyPoolState state);

// The fork server. kLater: it still imports modules, or will be restarted. kNow: it can fork.
// kNever: it cannot be used.
enum class Forks { kLater, kNow, kNever };

class StandbyPool {
 public:
  struct Options {
    int wanted = 0;                             // how many to keep, spread over the local ranks
    int workers = 1;                            // on this node
    bool forks = false;                         // there is a fork server; begins with Forks::kLater
    Duration settle = std::chrono::seconds(3);  // after the start, if a worker reports no step
    Duration start_limit = std::chrono::minutes(5);  // from a standby's start until it waits
    // A standby ended *early* if it ended before it began to wait, or within this time after that.
    Duration steady = std::chrono::seconds(10);
    Duration backoff = std::chrono::seconds(1);  // after an early end; doubles with the next
    int give_up_after = 4;                       // early ends in a row; OnUsed() ends the row
  };
  using Id = int;  // from 0, never used twice

  // ---- events ----
  struct GenerationStarted {};  // every worker of this node runs
  struct WorkerCanStandBy {};   // a worker has sent STANDBY=able
  struct WorkerStepped {
    LocalRank local_rank;
  };
  // Comes before the next start. Ends standbys that do not wait yet. Exception: without a fork
  // server, standbys that load for a coming start (StartComing) continue.
  struct GenerationEnded {};
  struct StandbyWaiting {
    Id id = 0;
  };
  // It ended, or could not be started.
  struct StandbyEnded {
    Id id = 0;
    std::string how;  // for people: "by exit code 1 (no such dataset)"
  };
  // The state of the fork server changed. kLater and kNever: forgets the requested standbys that do
  // not wait yet.
  struct ForksChanged {
    Forks forks = Forks::kLater;
  };
  // Workers are about to start. Answer: StartCanBegin, within `limit`. Without Options::forks,
  // standbys start only if a worker has shown that the program can wait.
  struct StartComing {
    Duration limit{};
    bool program_waits = false;  // a worker of another node has shown it
  };
  struct JobEnded {};
  struct Tick {};
  using Event =
      std::variant<GenerationStarted, WorkerCanStandBy, WorkerStepped, GenerationEnded,
                   StandbyWaiting, StandbyEnded, ForksChanged, StartComing, JobEnded, Tick>;

  // ---- actions ----
  // Answer: StandbyWaiting when it waits, StandbyEnded if it ends or does not start.
  struct StartStandby {
    Id id = 0;
    LocalRank local_rank;
    bool operator==(const StartStandby&) const = default;
  };
  // Kill it. Later events with this id are ignored.
  struct EndStandby {
    Id id = 0;
    bool operator==(const EndStandby&) const = default;
  };
  // A line for the log.
  struct Note {
    std::string text;
    bool operator==(const Note&) const = default;
  };
  // The workers can start, with the standbys that wait now.
  struct StartCanBegin {
    bool operator==(const StartCanBegin&) const = default;
  };
  using Action = std::variant<StartStandby, EndStandby, Note, StartCanBegin>;

  explicit StandbyPool(Options options) : options_(std::move(options)) {}

  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next; nullopt: nothing is timed.
  std::optional<TimePoint> NextDeadline() const;

  // Adds a process that waits from now on. nullopt: the job has ended and does not need it.
  std::optional<Id> Adopt(LocalRank local_rank, TimePoint now);

  // Takes a process that waits for this local rank out of the pool, to become a worker. nullopt:
  // none.
  std::optional<Id> Take(LocalRank local_rank);
  // Call it when a standby from Take() has become a worker, unless it came from Adopt().
  void OnUsed() { early_ends_ = 0; }

  StandbyPoolState state() const { return state_; }
  // True from StartComing until StartCanBegin.
  bool start_is_coming() const { return start_limit_.has_value(); }

 private:
  struct Standby {
    LocalRank local_rank;
    TimePoint started_at;
    std::optional<TimePoint> waiting_since;
    bool was_worker = false;  // Adopt()
  };

  void OnStarted(TimePoint now);
  void OnWaiting(Id id, TimePoint now);
  void OnEnded(const StandbyEnded& ended, TimePoint now);
  void OnForksChanged(Forks forks);
  void OnTick(TimePoint now);
  void Settle();
  void Fill(TimePoint now);
  void GiveUp(const std::string& why);
  void LookWhetherStartCanBegin(TimePoint now);
  // Ends the standbys that do not wait yet; with `that_wait_too` all standbys.
  void EndThose(bool that_wait_too);
  // The lowest local rank that lacks a standby.
  std::optional<LocalRank> Wanted() const;
  // True: a standby can be made, whether or not it is time for one.
  bool CanMake() const;
  // A standby that is starting and is no fork; ForkServer has the time limit of forks.
  const Standby* Loading() const;

  const Options options_;

  StandbyPoolState state_ = StandbyPoolState::kIdle;
  Forks forks_ = Forks::kLater;           // with Options::forks
  std::optional<TimePoint> start_limit_;  // from StartComing to StartCanBegin
  bool able_ = false;  // a worker, here or on another node, has shown that its program can wait
  bool said_unable_ = false;
  int generations_ = 0;          // started so far
  TimePoint settled_at_;         // kSettling ends at this time at the latest
  std::set<LocalRank> stepped_;  // in this generation
  Id next_id_ = 0;
  std::map<Id, Standby> standbys_;
  int early_ends_ = 0;      // in a row
  TimePoint not_before_{};  // no start before this time

  std::vector<Action> actions_;  // of the Step in progress
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_STANDBY_POOL_H_
