#include "launcher/agent/usage/usage_watch.h"

#include <utility>
#include <vector>

namespace ddprun {

UsageWatch::UsageWatch(EventLoop* loop, NodeWorkers* workers, std::shared_ptr<UsageMeter> meter,
                       std::shared_ptr<NodeBoard> board)
    : loop_(loop),
      workers_(workers),
      meter_(std::move(meter)),
      board_(std::move(board)),
      looker_(loop, "ddprun-usage") {
  if (board_ != nullptr) TellBoard();
}

NodeUsage UsageWatch::Tell(Duration round_trip) {
  const auto now = EventLoop::Clock::now();
  facts_.round_trip = round_trip;
  facts_.heartbeat_at = now;
  LookIfDue(now);
  const Use use = meter_->last();
  NodeUsage usage{use.cpu, use.resident_bytes, round_trip};
  usage.failed_snapshots = failed_snapshots_;
  return usage;
}

void UsageWatch::OnSaved(const SavedMsg& saved) {
  Histogram& saves = saved.durable ? facts_.checkpoints : facts_.snapshots;
  saves.Add(std::chrono::microseconds(saved.time));
}

void UsageWatch::TellBoard() {
  const std::vector<UsageMeter::RankWorker> workers = workers_->RankWorkers();
  if (!workers.empty()) facts_.generation = workers_->generation();
  facts_.workers = workers;
  facts_.logs = workers_->log_totals();
  board_->Set(facts_);
  timer_ = loop_->AddTimer(EventLoop::Clock::now() + kTellEvery, [this] { TellBoard(); });
}

void UsageWatch::LookIfDue(TimePoint now) {
  if (looking_ || now < next_look_) return;
  next_look_ = now + kLookEvery;
  looking_ = true;
  looker_.Run(
      [meter = meter_, workers = workers_->RankWorkers()] {
        meter->Look(workers);
        return true;
      },
      [this](bool) { looking_ = false; });
}

}  // namespace ddprun
