// RestartGovernor: whether a job starts again after a generation has ended, and when.
//
// Pure: facts in, a decision with its reason out. The time is an argument, and the random factor
// comes from a seed. Each JobLife (job_life.h: a job under one requeue number) has one.
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

// The part of the governor that JobRecord (job_record.h: what a rendezvous keeps of a job) stores
// unchanged.
struct CrashRecord {
  // The highest step of all generations that a failure has ended.
  std::optional<std::int64_t> furthest_step{};
  std::optional<Duration> start{};  // the newest measured start
  int crashes = 0;                  // in a row
  int stepless = 0;                 // crashes without a step, in a row
  int bind_retries = 0;             // in a row
  std::uint64_t random_state = 0;

  bool operator==(const CrashRecord&) const = default;
};

struct GovernorRecord : CrashRecord {
  int restarts_used = 0;
  // WindowedCount::RecentAges of the restarts, at the time of the record. After a takeover they
  // grow from these values on. The time without a rendezvous is not added, so a restart may leave
  // the window later than it should, never earlier.
  std::vector<Duration> recent_ages{};
  int membership_changes = 0;
  std::vector<Duration> membership_ages{};  // like recent_ages

  bool operator==(const GovernorRecord&) const = default;
};

struct RestartPolicy {
  int max_restarts = 0;
  std::optional<Duration> window;  // both limits count within it; nullopt: since the requeue
  // Exit codes of a worker that end the job, after the retries for a taken port.
  std::vector<int> never_on;
  // How many generations may end because a node was lost or left unplanned; 0: no limit.
  int max_membership_changes = 0;
};
RestartPolicy PolicyOf(const JobSpec& spec);

// Counts occurrences: all, or those within the window.
class WindowedCount {
 public:
  explicit WindowedCount(std::optional<Duration> window) : window_(window) {}
  WindowedCount(std::optional<Duration> window, int total, const std::vector<Duration>& recent_ages,
                TimePoint now);

  void Add(TimePoint now);
  int At(TimePoint now) const;
  int total() const { return total_; }
  // The ages of the occurrences that were within the window at the last Add(), oldest first.
  // Empty without a window.
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
    std::optional<std::int64_t> step;  // the highest step that a worker reported in it
    bool new_state = false;            // some node holds a newer state than the one restored
    Duration ran{};                    // from Start until the generation is stopped
    // Of the slowest node: from the spawn until every worker was at work (StartWatch says when that
    // is). nullopt: not measured.
    std::optional<Duration> start;
  };
  struct Decision {
    bool restart = false;
    Duration delay{};    // before the next forming
    std::string reason;  // for people: why there is no restart, or what this restart counts as
  };

  // Only the restarts of a crash loop are delayed. A crash is part of a loop if three things hold:
  // the worker itself caused its end (MadeByWorker, and no taken port is tried again) soon after
  // the start; no rank got further than CrashRecord::furthest_step; no node has a newer state. The
  // delay is kFirstDelay after the first crash in a row. It doubles with each further crash, up to
  // kMaxDelay. A random factor from 1/2 to 1 shortens it. Exception: the job's first restart is
  // immediate. So a job that does nothing but crash waits 0 ms, then 2 * kFirstDelay, and so on.
  static constexpr Duration kFirstDelay = std::chrono::milliseconds(100);
  static constexpr Duration kMaxDelay = std::chrono::seconds(60);
  // A job that has reported steps ends after this many crashes in a row, all in a crash
  // loop and all before a step.
  static constexpr int kMaxStepless = 3;
  // If a port that a worker needs is taken (usually MASTER_PORT), the job starts again and spends
  // no restart: at most this many times in a row. The next generation then uses
  // another port, unless the job names one.
  static constexpr int kMaxBindRetries = 5;
  // A crash comes "soon after the start" if the generation ran for less than kStarts times the
  // duration of the newest measured start (Facts::start). That start may be of this generation or
  // of an earlier one. It counts as at least kShortestStart. If no start was ever measured, the
  // limit is kLongEnough.
  static constexpr int kStarts = 3;
  static constexpr Duration kShortestStart = std::chrono::seconds(1);
  static constexpr Duration kLongEnough = std::chrono::seconds(60);

  RestartGovernor(RestartPolicy policy, std::uint64_t seed);

  // Continues from the record of an earlier governor.
  RestartGovernor(RestartPolicy policy, const GovernorRecord& record, TimePoint now);
  GovernorRecord Record(TimePoint now) const;

  Decision OnGenerationEnded(const Facts& facts, TimePoint now);

  // Restarts that were granted and counted, under this requeue number.
  int restarts_used() const { return restarts_.total(); }
  // Restarts that would be granted at `now`.
  int restarts_left(TimePoint now) const;

 private:
  Decision GiveUp(std::string reason) const;
  Decision OnMembershipChange(TimePoint now);
  // Updates the known progress. Returns true if this end belongs to a crash loop. `is_crash`: the
  // job itself caused it.
  bool IsCrashLoop(const Facts& facts, bool is_crash);
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
