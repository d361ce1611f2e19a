// StandbyPool: decides which warm standbys this node keeps, and for which local rank each is.
//
// A standby is a process of the job's command that was started ahead of time and waits to become a
// worker. This class starts none: a pure state machine, an event and the time go in, actions come
// out (launcher/standbys carries them out).
//
//            GenerationStarted          it is settled
//     Idle ──────────────────▶ Settling ──────────────▶ Filling ──▶ (one standby after the other)
//       ▲                          │                       │
//       └────── GenerationEnded ───┴───────────────────────┤ they end at once, or do not come to
//                                                          ▼ wait: GivenUp, for good
//     any of these ── JobEnded ──▶ Closed
//
// A generation is settled when each of its workers has finished a step, or some time after its
// start: only then there is time to spare. Nothing is started before a worker of the job has shown
// that its program can wait as a standby (or options say so): another program would do all its work
// a second time.
//
// Each standby is for one local rank, since arguments, devices and the caches of its CPU may be.
//
// A worker that has left its generation and stays (STANDBY=stays) waits here as well, whatever
// number of standbys is wanted: it is taken before them, and is none of them.
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

class StandbyPool {
 public:
  struct Options {
    int wanted = 0;            // how many are kept; spread over the local ranks
    int workers = 1;           // of this node
    bool always_able = false;  // the program can wait as a standby, without having shown it
    std::string waits_in;      // for people: "ddp::init()"
    Duration settle = std::chrono::seconds(3);       // after the start, where no steps are told
    Duration start_limit = std::chrono::minutes(5);  // from its start until a standby waits
    Duration steady = std::chrono::seconds(10);      // one that ends sooner has ended early
    Duration backoff = std::chrono::seconds(1);      // after an early end; doubles with the next
    int give_up_after = 4;                           // early ends in a row
  };
  using Id = int;  // from 0, never used twice

  // ---- events ----
  struct GenerationStarted {};  // every worker of this node runs
  struct WorkerCanStandBy {};   // a worker said so
  struct WorkerStepped {
    LocalRank local_rank;
  };
  // Before the next one starts, and what does not wait yet is in its way.
  struct GenerationEnded {};
  struct StandbyWaiting {
    Id id = 0;
  };
  // It ended, or could not be started.
  struct StandbyEnded {
    Id id = 0;
    std::string how;  // for people: "exited with code 1: no such dataset"
  };
  struct JobEnded {};
  struct Tick {};
  using Event = std::variant<GenerationStarted, WorkerCanStandBy, WorkerStepped, GenerationEnded,
                             StandbyWaiting, StandbyEnded, JobEnded, Tick>;

  // ---- actions ----
  // Answer: StandbyWaiting when it waits, StandbyEnded if it ends or does not start.
  struct StartStandby {
    Id id = 0;
    LocalRank local_rank;
    bool operator==(const StartStandby&) const = default;
  };
  // Kill it; it is not to be spoken of again.
  struct EndStandby {
    Id id = 0;
    bool operator==(const EndStandby&) const = default;
  };
  // Something a person should read.
  struct Note {
    std::string text;
    bool operator==(const Note&) const = default;
  };
  using Action = std::variant<StartStandby, EndStandby, Note>;

  explicit StandbyPool(Options options) : options_(std::move(options)) {}

  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next, or nullopt while nothing is timed.
  std::optional<TimePoint> NextDeadline() const;

  // This process waits from now on. nullopt: the job has ended, and nobody needs it.
  std::optional<Id> Adopt(LocalRank local_rank, TimePoint now);

  // Takes a process that waits for this local rank out of the pool: it becomes a worker. nullopt:
  // there is none.
  std::optional<Id> Take(LocalRank local_rank);

  StandbyPoolState state() const { return state_; }

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
  void OnTick(TimePoint now);
  void Settle();
  void Fill(TimePoint now);
  void GiveUp(const std::string& why);
  void EndThose(bool that_wait_too);
  // The local rank that is short of a standby, lowest first.
  std::optional<LocalRank> Wanted() const;
  const Standby* Loading() const;

  const Options options_;

  StandbyPoolState state_ = StandbyPoolState::kIdle;
  bool able_ = false;  // a worker has shown it
  bool said_unable_ = false;
  int generations_ = 0;          // started so far
  TimePoint settled_at_;         // kSettling: at the latest
  std::set<LocalRank> stepped_;  // in this generation
  Id next_id_ = 0;
  std::map<Id, Standby> standbys_;
  int early_ends_ = 0;      // in a row
  TimePoint not_before_{};  // the next start

  std::vector<Action> actions_;  // of the Step in progress
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_STANDBY_POOL_H_
