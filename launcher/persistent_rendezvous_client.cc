#include "launcher/persistent_rendezvous_client.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "launcher/log.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kRetryAfter{100};
// The rendezvous that refuses us may be that of an earlier job, with other credentials, and about
// to end.
constexpr std::chrono::milliseconds kPatienceWithRefusals{1000};
constexpr std::chrono::milliseconds kLongestWatchInterval{2000};

}  // namespace

PersistentRendezvousClient::PersistentRendezvousClient(EventLoop* loop, Options options)
    : loop_(loop), options_(std::move(options)) {}

PersistentRendezvousClient::~PersistentRendezvousClient() { Close(); }

void PersistentRendezvousClient::Open(Handler handler) {
  handler_ = std::move(handler);
  begin_ = EventLoop::Clock::now();
  deadline_ = begin_ + options_.connect_timeout;
  Connect();
  Watch();
}

void PersistentRendezvousClient::Send(const Header& header, const AgentMessage& message) {
  if (closed_) return;
  if (!heard_ && !std::holds_alternative<Heartbeat>(message)) {
    unanswered_.emplace_back(header, message);
  }
  if (client_ != nullptr) client_->Send(header, message);
}

void PersistentRendezvousClient::Close() {
  closed_ = true;
  loop_->CancelTimer(retry_);
  loop_->CancelTimer(watch_);
  if (client_ != nullptr) client_->Close();
}

void PersistentRendezvousClient::Connect() {
  options_.ensure_running();
  client_ = options_.make_client(deadline_ - EventLoop::Clock::now());
  const int attempt = ++attempt_;
  client_->Open([this, attempt](Event event) {
    loop_->Post([this, attempt, event = std::move(event)] { OnEvent(attempt, event); });
  });
  for (const auto& [header, message] : unanswered_) client_->Send(header, message);
}

void PersistentRendezvousClient::Watch() {
  watch_ = loop_->AddTimer(EventLoop::Clock::now() + watch_interval_, [this] {
    options_.ensure_running();
    watch_interval_ = std::min(2 * watch_interval_, kLongestWatchInterval);
    Watch();
  });
}

void PersistentRendezvousClient::OnEvent(int attempt, const Event& event) {
  if (closed_ || attempt != attempt_) return;
  const auto* const lost = std::get_if<Lost>(&event);
  if (lost == nullptr) {
    // Until it has ranks for us, a rendezvous may end, and the next one must hear our Join.
    if (!std::holds_alternative<Waiting>(std::get<Received>(event).message)) {
      heard_ = true;
      unanswered_.clear();
      loop_->CancelTimer(watch_);
    }
  } else if (!heard_ && EventLoop::Clock::now() + kRetryAfter <
                            (lost->refused ? std::min(deadline_, begin_ + kPatienceWithRefusals)
                                           : deadline_)) {
    LogDebug(absl::StrCat(lost->reason, "; trying again"));
    client_->Close();
    client_.reset();
    retry_ = loop_->AddTimer(EventLoop::Clock::now() + kRetryAfter, [this] { Connect(); });
    return;
  }
  handler_(event);
}

}  // namespace ddprun
