// HangWatch: whether the workers of one generation move, and how long a standstill may last.
//
// Pure: heartbeats and the time are arguments. JobMachine has one per generation and replaces it
// whole. A job hangs if no rank has moved for longer than the limit. Until the first step of the
// generation the limit is --hang-startup-timeout. After that --hang-timeout gives it:
//
//   DURATION            this time
//   auto (the default)  max(30 s, 5 × the longest standstill that was seen in this phase and ended
//                       by itself). In a phase that was not seen before: --hang-startup-timeout,
//                       but at least 30 s
//
// Once a worker has succeeded, or all workers that reported have sent BYE, HangJudge raises a
// shorter limit to --hang-startup-timeout.
#ifndef DDPRUN_RENDEZVOUS_HANGS_HANG_WATCH_H_
#define DDPRUN_RENDEZVOUS_HANGS_HANG_WATCH_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// The longest standstill that ended by itself, by phase. Survives generations; JobRecord keeps it.
class PhaseIntervals {
 public:
  // If there are more, the phase that was learned longest ago is forgotten. So a program that
  // numbers its phases does not displace phases that repeat. Phases from a record, after a restart
  // of the rendezvous, count as learned in alphabetical order.
  static constexpr std::size_t kMaxPhases = 64;

  PhaseIntervals() = default;
  explicit PhaseIntervals(const std::map<std::string, Duration>& longest) {
    for (const auto& [phase, interval] : longest) Learn(phase, interval);
  }

  void Learn(const std::string& phase, Duration interval);
  // nullopt: the phase was never seen.
  std::optional<Duration> Longest(const std::string& phase) const;
  const std::map<std::string, Duration>& longest() const { return longest_; }

 private:
  std::map<std::string, Duration> longest_;
  // The value of times_ at the last Learn(); the same keys as longest_.
  std::map<std::string, std::uint64_t> learned_;
  std::uint64_t times_ = 0;  // calls of Learn()
};

struct HangPolicy {
  bool watches = true;
  std::optional<Duration> limit;  // nullopt: auto
  Duration startup_limit{};
};
HangPolicy PolicyOfHangs(const JobSpec& spec);

class HangWatch {
 public:
  static constexpr Duration kFloor = std::chrono::seconds(30);  // the lowest limit of auto
  static constexpr int kFactor = 5;  // auto: times the longest standstill
  // Two reports of the same move give times that differ by less than this.
  static constexpr Duration kMoveResolution = std::chrono::milliseconds(200);

  // Call it when the workers were told to start, or when this rendezvous took over a running
  // generation.
  void Begin(TimePoint now) { last_moved_ = really_moved_ = now; }

  // Takes the report of a node. If the report ends a standstill, learns the standstill's length for
  // the current phases. Returns true if the report ends a hang that was reported.
  bool Take(AgentId node, const NodeProgress& progress, TimePoint now, PhaseIntervals* intervals);
  // The node's last report. nullptr: there is none, or it lists no worker, not even a silent or
  // leaving one.
  std::shared_ptr<const NodeProgress> Find(AgentId node) const;
  // A rank has reported the number of a step in this generation.
  void StepSeen() { step_seen_ = true; }
  // A rank has finished a step, with or without reporting its number.
  bool step_seen() const { return step_seen_; }

  // At least one node has a worker that reports progress.
  bool judges() const { return nodes_ > 0; }
  // Some workers have sent BYE ("I will exit with 0") and still run; no other worker reports
  // progress.
  bool leaves() const { return nodes_ == 0 && leaving_nodes_ > 0; }
  // Workers run, and none has reported anything.
  bool all_silent() const { return nodes_ == 0 && silent_nodes_ > 0 && !step_seen_; }
  // The start of the standstill, plus the excused time. An excuse is a reason for a standstill that
  // is no hang, for example a debugger or a suspended machine (docs/hangs.md). Its time does not
  // count.
  TimePoint last_moved() const { return last_moved_; }
  // The start of the standstill by the clock.
  TimePoint really_moved() const { return really_moved_; }
  // The limit for the phases that the ranks are in now.
  Duration Limit(const HangPolicy& policy, const PhaseIntervals& intervals) const;

  // Call it when the hang was reported. The length of its standstill is not learned.
  void Call() { called_ = true; }
  bool called() const { return called_; }

 private:
  struct Report {
    std::shared_ptr<const NodeProgress> progress;  // never null
    TimePoint at;
  };

  void Count(const NodeProgress& progress, int by);
  // BYE is a move.
  void TakeByes(const NodeProgress& progress, TimePoint now);
  // Learns phases that began and ended between two heartbeats, with `longest` as the length of
  // their longest standstill.
  void LearnPassed(const NodeProgress& progress, Duration longest, PhaseIntervals* intervals) const;
  // The phases for which the length of a standstill is learned. They contain training ("")
  // only if no rank is in another phase. Otherwise the ranks in training wait for the other ranks.
  std::vector<std::string> PhasesToLearn() const;

  TimePoint last_moved_;
  TimePoint really_moved_;
  std::map<std::string, int> phases_;  // nodes with a rank in that phase
  int nodes_ = 0;                      // nodes with workers that report
  int silent_nodes_ = 0;               // nodes with silent workers
  int leaving_nodes_ = 0;              // nodes with workers that have sent BYE and still run
  // By AgentId::value. Shared ownership, because StackMerge reads the reports on another thread.
  std::unordered_map<std::uint64_t, Report> reports_;
  bool step_seen_ = false;
  bool excused_ = false;  // an excuse or a stopped worker was reported since the last move
  bool called_ = false;   // since the last move
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_HANG_WATCH_H_
