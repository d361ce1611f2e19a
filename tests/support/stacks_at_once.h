// Does the JobMachine's work on stacks in the caller's thread: for tests without threads.
#ifndef DDPRUN_TESTS_SUPPORT_STACKS_AT_ONCE_H_
#define DDPRUN_TESTS_SUPPORT_STACKS_AT_ONCE_H_

#include <cstdint>
#include <map>
#include <memory>

#include "rendezvous/hangs/stack_findings.h"
#include "rendezvous/machine/job_machine.h"

namespace ddprun {

// Each function performs an action of the JobMachine, and returns the event for its Step(), if the
// action has one.
class StacksAtOnce {
 public:
  JobMachine::Event Perform(const JobMachine::MergeStacks& merge) {
    merges_[merge.request.value].Take(merge.host, merge.ranks, *merge.tree);
    return JobMachine::StacksMerged{merge.request, 1};
  }
  JobMachine::Event Perform(const JobMachine::JudgeStacks& judge) {
    auto merge = merges_.extract(judge.request.value);
    StackMerge stacks = merge.empty() ? StackMerge() : std::move(merge.mapped());
    return JobMachine::StacksJudged{
        judge.request, std::make_shared<const StackFindings>(stacks.Conclude(*judge.question))};
  }
  void Perform(const JobMachine::ForgetStacks& forget) { merges_.erase(forget.request.value); }

 private:
  std::map<std::uint64_t, StackMerge> merges_;  // by request
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_STACKS_AT_ONCE_H_
