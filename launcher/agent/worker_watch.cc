#include "launcher/agent/worker_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/agent/process_facts.h"
#include "launcher/log.h"
#include "rendezvous/core/limits.h"

namespace ddprun {
namespace {

// The limit for copying this node's stacks. The rendezvous waits 5 s for them.
constexpr std::chrono::seconds kStacksLimit{4};

}  // namespace

WorkerWatch::WorkerWatch(const Options& options, EventLoop* loop, NodeWorkers* workers)
    : loop_(loop),
      workers_(workers),
      still_(options.heartbeat),
      silence_(options.judges_hangs, options.is_python),
      stack_taker_(loop, "ddprun-stacks") {}

void WorkerWatch::Begin(bool of_rank_0) {
  End();
  const auto now = EventLoop::Clock::now();
  runs_ = true;
  stragglers_.Clear();
  still_.Begin(now);
  facts_.clear();
  silence_.Begin(of_rank_0, now);
  if (!silence_.deadline()) return;
  silence_timer_ = loop_->AddTimer(*silence_.deadline(), [this] {
    const auto told = workers_->progress().Read(EventLoop::Clock::now());
    if (const auto text = silence_.Look(told)) LogInfo(*text);
  });
}

void WorkerWatch::End() {
  runs_ = false;
  silence_.End();
  loop_->CancelTimer(silence_timer_);
}

NodeProgress WorkerWatch::Look() {
  const auto now = EventLoop::Clock::now();
  std::vector<SeenWorker> seen;
  for (const WorkerProgress& progress : workers_->progress().Read(now)) {
    const auto pid = workers_->PidOf(progress.local_rank);
    if (!pid) continue;
    seen.push_back(SeenWorkerOf(progress, *pid));
  }
  NodeProgress progress = still_.Look(seen, now, [this](int pid) { return FactsOf(pid); });
  urgency_ = progress.still < NodeProgress::kDetailsAfter ? stacks::StackUrgency::kBesideTraining
                                                          : stacks::StackUrgency::kAtOnce;
  return progress;
}

// The progress pages of a generation stay until the next one starts, those of dead workers too.
std::vector<EnteredCall> WorkerWatch::LastCalls(Generation generation) {
  if (workers_->progress().generation() != generation) return {};
  return LastCallsOf(workers_->progress().Read(EventLoop::Clock::now()));
}

// While the stacks of a worker are copied, the kernel reports a tracer. So the earlier facts are
// used, but only for a limited time, because copying may block.
ProcessFacts WorkerWatch::FactsOf(int pid) {
  const auto known = facts_.find(pid);
  const bool copying = taking_stacks_ > 0 && EventLoop::Clock::now() < copying_until_;
  if (copying && known != facts_.end()) return known->second;
  return facts_[pid] = ReadProcessFacts(pid, SpeakerOf(pid).pid);
}

ProcessId WorkerWatch::SpeakerOf(pid_t worker) const {
  const auto local_rank = workers_->WithPid(worker);
  const auto speaker = local_rank ? workers_->progress().SpeakerOf(*local_rank) : std::nullopt;
  return speaker.value_or(ProcessIdOf(worker));
}

void WorkerWatch::TakeStacks(std::vector<RankProcess> ranks,
                             std::function<void(const EncodedStackTree&)> done) {
  for (RankProcess& rank : ranks) rank.process = SpeakerOf(rank.worker);
  ++taking_stacks_;
  const auto deadline = EventLoop::Clock::now() + kStacksLimit;
  copying_until_ = deadline + std::chrono::seconds(1);
  stack_taker_.Run(
      [ranks = std::move(ranks), deadline, urgency = urgency_] {
        return TakeStacksOf(ranks, deadline, urgency).Encode(kMaxSentStackTreeBytes);
      },
      [this, done = std::move(done)](const EncodedStackTree& tree) {
        --taking_stacks_;
        done(tree);
      });
}

void WorkerWatch::OnStepOfNobody(const ProcessId& speaker) {
  if (!runs_ || std::exchange(said_nobody_, true)) return;
  const std::optional<ProcessStat> stat = ReadProcessStat(speaker.pid);
  const std::string process = absl::StrCat("process ", speaker.pid);
  const std::string why =
      stat && IsAlive(speaker)
          ? absl::StrCat(process, " (", stat->name,
                         ") reports steps and is not a descendant of any worker")
          : absl::StrCat(
                process,
                " reported a step and ended before ddprun could see which worker started it");
  LogWarning(absl::StrCat(why, ": such steps do not count, so hangs of this rank are not noticed"));
}

void WorkerWatch::OnStraggler(const StragglerMsg& straggler) {
  const auto news = straggler.ended
                        ? stragglers_.Ended(straggler.rank)
                        : stragglers_.Begun(straggler.rank, straggler.host,
                                            std::chrono::microseconds(straggler.time),
                                            std::chrono::microseconds(straggler.others));
  if (news && straggler.ended) LogInfo(*news);
  if (news && !straggler.ended) LogWarning(*news);
}

void WorkerWatch::FillIn(NodeUsage* usage) const {
  if (!runs_) return;
  usage->stragglers = stragglers_.size();
  usage->straggler_ranks = stragglers_.Lowest(NodeUsage::kMostNamed);
}

}  // namespace ddprun
