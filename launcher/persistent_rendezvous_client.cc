#include "launcher/persistent_rendezvous_client.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "launcher/log.h"

namespace ddprun {
namespace {

// The rendezvous that denies us may be that of an earlier job, with other credentials, and about to
// end.
constexpr std::chrono::milliseconds kPatience{500};
constexpr int kClosedOften = 3;
constexpr std::chrono::milliseconds kLongestWatchInterval{2000};

}  // namespace

PersistentRendezvousClient::PersistentRendezvousClient(EventLoop* loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      attempt_limit_(options_.longest_attempt),
      random_(options_.seed) {}

PersistentRendezvousClient::~PersistentRendezvousClient() { Close(); }

void PersistentRendezvousClient::Open(Handler handler) {
  handler_ = std::move(handler);
  begin_ = EventLoop::Clock::now();
  Connect();
  Watch();
}

void PersistentRendezvousClient::Send(const Header& header, const AgentMessage& message) {
  if (open_ && !closed_) client_->Send(header, message);
}

void PersistentRendezvousClient::Close() {
  closed_ = true;
  loop_->CancelTimer(retry_);
  loop_->CancelTimer(watch_);
  if (client_ != nullptr) client_->Close();
}

void PersistentRendezvousClient::Connect() {
  ours_ = options_.ensure_running(place_);
  client_ = options_.make_client(place_, attempt_limit_);
  const int attempt = ++attempt_;
  client_->Open([this, attempt](Event event) {
    loop_->Post([this, attempt, event = std::move(event)] { OnEvent(attempt, event); });
  });
}

Duration PersistentRendezvousClient::NextBackoff() {
  const Duration whole = std::max(backoff_, options_.first_backoff);
  backoff_ = std::min(2 * whole, options_.longest_backoff);
  return Duration(
      std::uniform_int_distribution<Duration::rep>(whole.count() / 2, whole.count())(random_));
}

void PersistentRendezvousClient::Watch() {
  watch_ = loop_->AddTimer(EventLoop::Clock::now() + watch_interval_, [this] {
    ours_ = options_.ensure_running(place_);
    watch_interval_ = std::min(2 * watch_interval_, kLongestWatchInterval);
    Watch();
  });
}

void PersistentRendezvousClient::ConsiderNextPlace(Lost* lost) {
  denials_ = lost->denied ? denials_ + 1 : 0;
  lost->denied = denials_ >= options_.places;
  if (!ours_) place_ = (place_ + 1) % options_.places;
}

void PersistentRendezvousClient::OnEvent(int attempt, Event event) {
  if (closed_ || attempt != attempt_) return;
  if (std::holds_alternative<Opened>(event)) {
    open_ = true;
  } else if (auto* lost = std::get_if<Lost>(&event)) {
    LogDebug(lost->reason);
    closed_after_tls_ = lost->closed_after_tls ? closed_after_tls_ + 1 : 0;
    if (closed_after_tls_ >= kClosedOften) lost->denied = true;
    if (EventLoop::Clock::now() < begin_ + kPatience) lost->denied = false;
    if (!heard_) ConsiderNextPlace(lost);
    open_ = false;
    if (!lost->refused) attempt_limit_ = std::min(2 * attempt_limit_, options_.longest_attempt);
    client_->Close();  // it is over: returns at once
    retry_ = loop_->AddTimer(EventLoop::Clock::now() + NextBackoff(), [this] { Connect(); });
  } else {
    heard_ = true;
    backoff_ = Duration::zero();
    attempt_limit_ = options_.shortest_attempt;
    // From here on Lost says when it is gone; a rendezvous that says Waiting may be about to end.
    if (!std::holds_alternative<Waiting>(std::get<Received>(event).message)) {
      loop_->CancelTimer(watch_);
    }
  }
  handler_(event);
}

}  // namespace ddprun
