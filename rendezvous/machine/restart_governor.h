// RestartGovernor: whether a job starts again after a generation has ended, and when.
//
// Pure: facts in, a decision with its reason out; the time is an argument and the jitter comes from
// a seed. One per job, in the JobMachine.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_RESTART_GOVERNOR_H_
#define DDPRUN_RENDEZVOUS_MACHINE_RESTART_GOVERNOR_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// What of the governor the rendezvous persists as it is.
struct CrashRecord {
  std::optional<std::int64_t> furthest_step{};  // that a worker has told, in any generation so far
  std::optional<Duration> start{};              // the last that was measured
  int crashes = 0;                              // in a row
  int stepless = 0;                             // of these, without a step, in a row
  int bind_retries = 0;                         // in a row
  std::uint64_t random_state = 0;

  bool operator==(const CrashRecord&) const = default;
};

struct GovernorRecord : CrashRecord {
  int restarts_used = 0;
  // Of the restarts that the window still held, oldest first: how long ago when the record was
  // made. Time that passes until it is read is not counted, so the window is never shorter than
  // asked.
  std::vector<Duration> recent_ages{};
  int membership_changes = 0;
  std::vector<Duration> membership_ages{};  // as recent_ages

  bool operator==(const GovernorRecord&) const = default;
};

struct RestartPolicy {
  int max_restarts = 0;
  std::optional<Duration> window;  // both budgets count what is this recent; nullopt: all
  std::vector<int> never_on;       // a worker's exit codes that end the job at once
  int max_membership_changes = 0;  // lost or left nodes that ended a generation; 0: any number
};
RestartPolicy PolicyOf(const JobSpec& spec);

// How often something happened: in all, or within the window.
class WindowedCount {
 public:
  explicit WindowedCount(std::optional<Duration> window) : window_(window) {}
  WindowedCount(std::optional<Duration> window, int total, const std::vector<Duration>& recent_ages,
                TimePoint now);

  void Add(TimePoint now);
  int At(TimePoint now) const;
  int total() const { return total_; }
  // Of those that the window held when the last one was added.
  std::vector<Duration> RecentAges(TimePoint now) const;

 private:
  std::optional<Duration> window_;
  int total_ = 0;
  std::deque<TimePoint> recent_;  // with a window only
};

class RestartGovernor {
 public:
  // How one generation ended.
  struct Facts {
    RootCause cause;
    std::optional<std::int64_t> step;  // the highest that a worker told in it
    bool new_state = false;            // some node holds one that is newer than what it began with
    Duration ran{};                    // from Start to the first failure
    std::optional<Duration> start;     // its slowest node's, until its workers were at work
  };
  struct Decision {
    bool restart = false;
    Duration delay{};    // before the next forming
    std::string reason;  // for people: why not, or how many are left
  };

  // Only a crash loop is slowed down: a worker made its own end (RootCause, MadeByWorker), soon
  // after the start, and no rank had got further than in any generation before. The first restart
  // is immediate; with each crash in a row the delay doubles from kFirstDelay to kMaxDelay, times a
  // random factor from 1/2 to 1.
  static constexpr Duration kFirstDelay = std::chrono::milliseconds(100);
  static constexpr Duration kMaxDelay = std::chrono::seconds(60);
  // A job that has reported steps and crashes so often in a row before it makes one is given up.
  static constexpr int kMaxStepless = 3;
  // MASTER_PORT was taken by somebody else: a new generation with another one, so often in a row.
  static constexpr int kMaxBindRetries = 5;
  // A generation was not soon over once it had run for this many times its start, counted as at
  // least kShortestStart; where no start was ever measured, after kLongEnough.
  static constexpr int kStarts = 3;
  static constexpr Duration kShortestStart = std::chrono::seconds(1);
  static constexpr Duration kLongEnough = std::chrono::seconds(60);

  RestartGovernor(RestartPolicy policy, std::uint64_t seed);

  // One that goes on where another one was when it made `record`.
  RestartGovernor(RestartPolicy policy, const GovernorRecord& record, TimePoint now);
  GovernorRecord Record(TimePoint now) const;

  Decision OnGenerationEnded(const Facts& facts, TimePoint now);

  // Restarts that were granted and counted, in the whole job.
  int restarts_used() const { return restarts_.total(); }
  // That would be granted from `now` on, all of them at once.
  int restarts_left(TimePoint now) const;

 private:
  Decision GiveUp(std::string reason) const;
  Decision OnMembershipChange(TimePoint now);
  // Updates what is known of progress. Returns whether this end is one of a crash loop.
  bool IsCrashLoop(const Facts& facts);
  const char* WithinTheWindow() const { return policy_.window ? " within the window" : ""; }
  Duration NextDelay();
  std::uint64_t NextRandom();

  RestartPolicy policy_;
  WindowedCount restarts_;
  WindowedCount membership_changes_;
  CrashRecord so_far_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_RESTART_GOVERNOR_H_
