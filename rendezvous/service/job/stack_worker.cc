#include "rendezvous/service/job/stack_worker.h"

#include <memory>

#include "absl/status/statusor.h"
#include "rendezvous/service/low_priority.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

constexpr std::size_t kTellAfter = 64;  // trees merged

void TakeAnswer(const JobMachine::MergeStacks& merge, StackMerge* to) {
  if (!merge.packed) return to->Take(merge.host, merge.ranks, *merge.tree);
  const absl::StatusOr<EncodedStackTree> tree = wire::UnpackTree(*merge.packed);
  if (!tree.ok()) return to->Refuse(merge.host, std::string(tree.status().message()));
  to->Take(merge.host, merge.ranks, *tree);
}

}  // namespace

template <class Task>
void StackWorker::Post(Task task) {
  ++queued_;
  tasks_.Post([this, task = std::move(task)]() mutable {
    --queued_;
    task();
  });
}

void StackWorker::Perform(const std::string& job, JobMachine::MergeStacks merge) {
  Post([this, job, merge = std::move(merge)] {
    LowerPriority();
    Merge& to = merges_[{job, merge.request.value}];
    TakeAnswer(merge, &to.stacks);
    if (++to.untold < kTellAfter && queued_ > 0) return;
    done_(job, JobMachine::StacksMerged{merge.request, std::exchange(to.untold, 0)});
  });
}

void StackWorker::Perform(const std::string& job, JobMachine::JudgeStacks judge) {
  Post([this, job, judge = std::move(judge)] {
    LowerPriority();
    const Key key{job, judge.request.value};
    auto findings =
        std::make_shared<const StackFindings>(merges_[key].stacks.Conclude(*judge.question));
    merges_.erase(key);
    done_(job, JobMachine::StacksJudged{judge.request, std::move(findings)});
  });
}

void StackWorker::Perform(const std::string& job, JobMachine::ForgetStacks forget) {
  Post([this, key = Key{job, forget.request.value}] { merges_.erase(key); });
}

}  // namespace ddprun
