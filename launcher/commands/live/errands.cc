#include "launcher/commands/live/errands.h"

#include <algorithm>
#include <utility>

namespace ddprun::top {

Errands::Errands(EventLoop* loop, OperatorClient::Options options, Handler handler)
    : loop_(loop), options_(std::move(options)), handler_(std::move(handler)) {}

void Errands::Begin(const Request& request) {
  if (BringsText(request)) CancelTexts();
  const std::uint64_t number = ++last_;
  Errand& errand = pending_[number];
  errand.request = request;
  OperatorClient::Options options = options_;
  options.stop = errand.stop.get_token();
  errand.thread = std::thread([this, number, request, options = std::move(options)] {
    absl::StatusOr<std::string> answer = Ask(options, request);
    {
      const std::lock_guard lock(mutex_);
      numbers_answered_.insert(number);
      answered_.notify_all();
    }
    loop_->Post([this, number, answer = std::move(answer)] { Take(number, answer); });
  });
}

void Errands::CancelTexts() {
  for (auto& [number, errand] : pending_) {
    if (BringsText(errand.request)) errand.stop.request_stop();
  }
}

void Errands::Take(std::uint64_t number, const absl::StatusOr<std::string>& answer) {
  auto found = pending_.extract(number);
  if (found.empty()) return;  // after End
  Errand& errand = found.mapped();
  errand.thread.join();  // it ends right after it has posted this call
  {
    const std::lock_guard lock(mutex_);
    numbers_answered_.erase(number);
  }
  if (!errand.stop.stop_requested()) handler_(errand.request, answer);
}

std::vector<Request> Errands::End(std::chrono::milliseconds patience) {
  CancelTexts();
  std::vector<Request> unanswered;
  {
    std::unique_lock lock(mutex_);
    const auto waits = [this](const auto& pending) {
      return !BringsText(pending.second.request) && !numbers_answered_.contains(pending.first);
    };
    answered_.wait_for(lock, patience,
                       [&] { return std::none_of(pending_.begin(), pending_.end(), waits); });
    for (const auto& pending : pending_) {
      if (waits(pending)) unanswered.push_back(pending.second.request);
    }
  }
  for (auto& [number, errand] : pending_) {
    errand.stop.request_stop();
    errand.thread.join();
  }
  pending_.clear();
  return unanswered;
}

}  // namespace ddprun::top
