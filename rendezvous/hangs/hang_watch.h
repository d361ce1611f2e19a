// HangWatch: whether the workers of a generation still move, and for how long they may not.
//
// Pure: heartbeats and the time go in. One per generation, in the JobMachine, which replaces it
// whole. A job hangs when no rank has moved for longer than its limit:
//
//   --hang-timeout DURATION  DURATION
//   auto (the default)       max(30 s, 5 × the longest time without a move that was ever seen in
//                            this phase and ended by itself)
//   --hang-startup-timeout   until the first step of the generation; with auto, in a phase never
//   seen
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

// The longest time without a move, by phase. Kept over generations, and in the job's record.
class PhaseIntervals {
 public:
  // Of more, the one that was learned longest ago is forgotten: a program that numbers its phases
  // still has its others judged.
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
  std::map<std::string, std::uint64_t> learned_;  // when last; the same phases
  std::uint64_t times_ = 0;                       // that Learn was called
};

struct HangPolicy {
  bool watches = true;
  std::optional<Duration> limit;  // nullopt: auto
  Duration startup_limit{};
};
HangPolicy PolicyOfHangs(const JobSpec& spec);

class HangWatch {
 public:
  static constexpr Duration kFloor = std::chrono::seconds(30);  // of auto
  static constexpr int kFactor = 5;
  // Two looks at one move differ by less than this.
  static constexpr Duration kMoveResolution = std::chrono::milliseconds(200);

  // The workers were told to start, or the rendezvous was started again.
  void Begin(TimePoint now) { last_moved_ = really_moved_ = now; }

  // What a node told; an interval that ends by it is learned. Returns whether a hang that was
  // called is over.
  bool Take(AgentId node, const NodeProgress& progress, TimePoint now, PhaseIntervals* intervals);
  // What it told last; nullptr: nothing, or nothing of its workers. It may be of silent ones alone.
  std::shared_ptr<const NodeProgress> Find(AgentId node) const;
  // A rank has told a step in this generation.
  void StepSeen() { step_seen_ = true; }
  // A rank has finished one, whether it has told which or not.
  bool step_seen() const { return step_seen_; }

  // At least one node tells.
  bool judges() const { return nodes_ > 0; }
  // Workers run that have said BYE, and no others that tell.
  bool leaves() const { return nodes_ == 0 && leaving_nodes_ > 0; }
  // Workers run, and none of them has told anything.
  bool all_silent() const { return nodes_ == 0 && silent_nodes_ > 0 && !step_seen_; }
  // Later than a rank really moved, where some of the time since then does not count.
  TimePoint last_moved() const { return last_moved_; }
  TimePoint really_moved() const { return really_moved_; }
  // How long no rank may move, in the phases that the ranks are in.
  Duration Limit(const HangPolicy& policy, const PhaseIntervals& intervals) const;

  // A hang was called: it is not called again, and the interval is not learned.
  void Call() { called_ = true; }
  bool called() const { return called_; }

 private:
  struct Report {
    std::shared_ptr<const NodeProgress> progress;  // never null
    TimePoint at;
  };

  void Count(const NodeProgress& progress, int by);
  // The last word of a worker is a move.
  void TakeByes(const NodeProgress& progress, TimePoint now);
  // Phases that began and ended between two heartbeats, in which no interval was above `longest`.
  void LearnPassed(const NodeProgress& progress, Duration longest, PhaseIntervals* intervals) const;
  // The phases that an interval is learned for. Where a rank is in a phase of its own, the others
  // wait for it, and the interval says nothing about training.
  std::vector<std::string> PhasesToLearn() const;

  TimePoint last_moved_;
  TimePoint really_moved_;
  std::map<std::string, int> phases_;  // how many nodes have a rank in it
  int nodes_ = 0;                      // that tell
  int silent_nodes_ = 0;               // with silent ranks
  int leaving_nodes_ = 0;              // with ranks that have said BYE and run on
  // By AgentId. Shared with who looks at it on another thread.
  std::unordered_map<std::uint64_t, Report> reports_;
  bool step_seen_ = false;
  bool excused_ = false;  // since the last move
  bool called_ = false;   // since the last move
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_HANG_WATCH_H_
