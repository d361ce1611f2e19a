#include "rendezvous/service/job/stack_worker.h"

#include <sys/resource.h>

#include <memory>

namespace ddprun {
namespace {

constexpr int kNice = 10;
constexpr std::size_t kTellAfter = 64;  // trees that are merged

// Of the calling thread; that is what Linux makes of PRIO_PROCESS.
void LowerPriority() {
  if (getpriority(PRIO_PROCESS, 0) < kNice) setpriority(PRIO_PROCESS, 0, kNice);
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
    to.stacks.Take(merge.host, merge.ranks, *merge.tree);
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
