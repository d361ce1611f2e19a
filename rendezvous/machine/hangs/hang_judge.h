// HangJudge: decides whether a job hangs, what is reported, and whether its workers are restarted.
//
// It takes the nodes' reports, and requests stacks before it decides. A hang that ends the
// generation is added to the generation's Incidents. Owned by the JobMachine.
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
  // All of these must outlive the HangJudge.
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

  // Takes a node's report about its workers.
  void Take(const Node& node, const NodeProgress& progress, TimePoint now);
  // When to call Consider(); nullopt: nothing to judge.
  std::optional<TimePoint> Deadline(JobState state) const;
  // Once the limit is over: requests stacks, or decides with the kept findings. Tries again after
  // one heartbeat interval if a debugger holds a rank, a node is quiet, or a busy rank is at work.
  void Consider(JobState state, TimePoint now);
  // The question for StackRequests::Conclude().
  StackQuestion Question() const;
  // Decides from the findings. `missing`: hosts that sent no stacks.
  void Decide(StackFindings::Culprit found, std::vector<std::string> missing, JobState state,
              TimePoint now);
  // For a job whose workers run: adds how long no rank has moved, and why a hang would not be
  // noticed.
  void AddProgress(JobStatus* status, TimePoint now) const;

 private:
  bool Judges() const;
  // An excuse is a reason why a standstill is no hang, for example a debugger (core/progress.h). If
  // both the standstill and `excuse` have reached the limit: warns all nodes, once per excuse, and
  // only about the first few excuses of a generation.
  void TellLongExcuse(const Node& node, const HangExcuse& excuse, TimePoint now);
  bool DebuggerHoldsOne() const;
  // Before the first step: warns all nodes, once in a generation, that ranks wait in init() for
  // others. Looks at all nodes only every few seconds.
  void TellInitWait(TimePoint now);
  // How long a standstill may last now.
  Duration Limit() const;
  bool KnowsEveryRank(TimePoint now) const;
  // The kept findings are still valid: no rank has moved since the stacks were taken.
  bool HasFound() const;
  // The busy rank of the last verdict may still be at work, and its extra time
  // (--hang-startup-timeout) is not over.
  bool IsAtWork(TimePoint now) const;
  std::vector<StillNode> StillNodes() const;
  // AgentId{}: the node has left.
  AgentId AgentOf(NodeRank rank) const;
  // "; rank 1 has ended with 0 40.1 s ago": the others may wait for that rank. "": no rank has
  // ended.
  std::string WhoHasEnded(TimePoint now) const;
  void Call(const StackFindings::Culprit& found, const std::string& standstill,
            const std::string& next, std::vector<std::string> missing);
  // Sends the verdict to every node. The tree of stacks goes only to as many nodes as
  // hang_bytes_of_all_nodes allows.
  void SendStacks(HangStacks stacks);
  std::size_t ShownStackBytes() const;  // limit for the tree that one node gets
  std::pair<bool, std::string> AfterHang(const HangVerdict& verdict, bool again, TimePoint now);
  std::string LeaveAtWork(const HangVerdict& verdict, TimePoint now);
  HangSuspicion& suspicion() { return job_.generation->suspicion; }
  const HangSuspicion& suspicion() const { return job_.generation->suspicion; }

  const Job job_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_HANGS_HANG_JUDGE_H_
