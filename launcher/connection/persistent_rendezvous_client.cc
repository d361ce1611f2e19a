#include "launcher/connection/persistent_rendezvous_client.h"

#include <utility>
#include <variant>

#include "launcher/log.h"

namespace ddprun {

PersistentRendezvousClient::PersistentRendezvousClient(EventLoop* loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      places_(options_.places),
      timing_(options_.timing),
      daemon_(loop, &places_, options_.ensure_running) {}

PersistentRendezvousClient::~PersistentRendezvousClient() { Close(); }

void PersistentRendezvousClient::Open(Handler handler) {
  handler_ = std::move(handler);
  places_.Begin(EventLoop::Clock::now());
  Connect();
  daemon_.Start();
}

void PersistentRendezvousClient::Send(const Header& header, const AgentMessage& message) {
  if (open_ && !closed_) client_->Send(header, message);
}

void PersistentRendezvousClient::Close() {
  closed_ = true;
  loop_->CancelTimer(retry_);
  daemon_.Stop();
  if (client_ != nullptr) client_->Close();
}

void PersistentRendezvousClient::Connect() {
  daemon_.Ensure();
  client_ = options_.make_client(places_.place(), timing_.attempt_limit());
  const int attempt = ++attempt_;
  client_->Open([this, attempt](Event event) {
    loop_->Post([this, attempt, event = std::move(event)] { OnEvent(attempt, event); });
  });
}

void PersistentRendezvousClient::OnEvent(int attempt, Event event) {
  if (closed_ || attempt != attempt_) return;
  if (std::holds_alternative<Opened>(event)) {
    open_ = true;
  } else if (auto* const lost = std::get_if<Lost>(&event)) {
    OnLost(lost);
  } else {
    OnHeard(std::get<Received>(event));
  }
  handler_(event);
}

void PersistentRendezvousClient::OnLost(Lost* lost) {
  LogDebug(lost->reason);
  const auto now = EventLoop::Clock::now();
  if (lost->denied && options_.credentials_outdated && options_.credentials_outdated()) {
    lost->denied = false;
  }
  // With TLS a certificate that is not taken shows only as a connection that closes.
  if ((lost->denied || lost->closed_after_tls) && options_.denied_at) {
    options_.denied_at(places_.place());
  }
  places_.OnLost(daemon_.ours(), now, lost);
  open_ = false;
  client_->Close();  // it is over: returns at once
  retry_ = loop_->AddTimer(now + timing_.OnLost(lost->refused), [this] { Connect(); });
}

void PersistentRendezvousClient::OnHeard(const Received& received) {
  places_.OnHeard();
  if (options_.heard_at) options_.heard_at(places_.place());
  timing_.OnHeard();
  // From here on Lost says when it is gone; a rendezvous that says Waiting may be about to end.
  if (!std::holds_alternative<Waiting>(received.message)) daemon_.Stop();
}

}  // namespace ddprun
