// HangJudge: whether a job hangs, what is said of it, and whether its workers are started again.
//
// Fed with what nodes tell of their workers; asks for stacks before it decides. A hang that is to
// end the generation becomes an incident of it. Owned by the JobMachine.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_HANGS_HANG_JUDGE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_HANGS_HANG_JUDGE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/job_status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/stack_findings.h"
#include "rendezvous/machine/generation_state.h"
#include "rendezvous/machine/hangs/stack_requests.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/step/job_machine_options.h"
#include "rendezvous/machine/step/job_outbox.h"

namespace ddprun {

class HangJudge {
 public:
  // All of these outlive it.
  struct Job {
    const std::string* name;
    const JobMachineOptions* options;
    JobLife* life;
    GenerationState* generation;
    const Roster* roster;
    StackRequests* stacks;
    JobOutbox* out;
  };
  explicit HangJudge(Job job) : job_(job) {}
  HangJudge(const HangJudge&) = delete;
  HangJudge& operator=(const HangJudge&) = delete;

  // What a node tells of its workers.
  void Take(const Node& node, const NodeProgress& progress, TimePoint now);
  // When to look; nullopt: nothing is judged.
  std::optional<TimePoint> Deadline(JobState state) const;
  // Asks for stacks where it is time.
  void Consider(JobState state, TimePoint now);
  // What is asked about the stacks.
  StackQuestion Question() const;
  // With the stacks that were asked for, and the hosts that sent none.
  void Decide(StackFindings::Culprit found, std::vector<std::string> missing, JobState state,
              TimePoint now);
  // While the workers run: how far they are, or why nobody judges that.
  void AddProgress(JobStatus* status, TimePoint now) const;

 private:
  bool Judges() const;
  // No rank moves, and somebody must see to why the time does not count: says it, once.
  void TellLongExcuse(const Node& node, const HangExcuse& excuse, TimePoint now);
  bool DebuggerHoldsOne() const;
  // For how long no rank may move, as things are now.
  Duration Limit() const;
  bool KnowsEveryRank(TimePoint now) const;
  // No rank has moved since the stacks were taken.
  bool HasFound() const;
  // The rank that the verdict named may still be at work, and has time left for that.
  bool IsAtWork(TimePoint now) const;
  std::vector<StillNode> StillNodes() const;
  // "; rank 1 has ended with 0 40.1 s ago": the others may wait for it. Empty: none has.
  std::string WhoHasEnded(TimePoint now) const;
  void Call(const StackFindings::Culprit& found, const std::string& standstill,
            const std::string& next, std::vector<std::string> missing);
  // Where the ranks are, to every node.
  void SendStacks(HangStacks stacks);
  std::size_t ShownStackBytes() const;  // to one node, at most
  std::pair<bool, std::string> AfterHang(const HangVerdict& verdict, bool again, TimePoint now);
  std::string LeaveAtWork(const HangVerdict& verdict, TimePoint now);
  HangSuspicion& suspicion() { return job_.generation->suspicion; }
  const HangSuspicion& suspicion() const { return job_.generation->suspicion; }

  const Job job_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_HANGS_HANG_JUDGE_H_
