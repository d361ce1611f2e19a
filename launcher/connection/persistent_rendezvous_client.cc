#include "launcher/connection/persistent_rendezvous_client.h"

#include <utility>
#include <variant>

#include "launcher/log.h"

namespace ddprun {

PersistentRendezvousClient::PersistentRendezvousClient(EventLoop* loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      places_(options_.places, options_.several),
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
  standing_by_.Close();
  if (client_ != nullptr) client_->Close();
}

void PersistentRendezvousClient::Lead(std::optional<int> place, const std::string& reason) {
  const int before = places_.place();
  places_.Lead(place);
  if (!place || closed_ || handler_ == nullptr) return;
  if (waiting_) {
    loop_->CancelTimer(retry_);
    return Connect();
  }
  if (*place == before) {
    at_once_ = !spoke_;
    return;
  }
  GoOnAtOnce(reason);
}

void PersistentRendezvousClient::Move(const std::string& reason) {
  if (closed_ || handler_ == nullptr) return;
  if (waiting_) {
    loop_->CancelTimer(retry_);
    return Connect();
  }
  GoOnAtOnce(reason);
}

void PersistentRendezvousClient::SkipPlace() {
  if (closed_ || handler_ == nullptr || !waiting_) return;
  places_.Skip();
  loop_->CancelTimer(retry_);
  Connect();
}

void PersistentRendezvousClient::FindUseless(const std::string& reason) {
  if (closed_ || handler_ == nullptr || open_) return;
  Lost lost{reason};
  lost.useless = true;
  handler_(lost);
}

void PersistentRendezvousClient::GoOnAtOnce(const std::string& reason) {
  attempt_ = 0;  // ignores its later events
  open_ = false;
  client_->Abandon();
  handler_(Lost{reason});
  if (!closed_) Connect();
}

void PersistentRendezvousClient::Connect() {
  waiting_ = at_once_ = spoke_ = false;
  daemon_.Ensure();
  // Only the leader takes the waiting session: a standby would refuse its messages.
  if (places_.leads()) {
    auto waiting = standing_by_.Take(places_.place());
    if (waiting.client != nullptr) return Use(std::move(waiting));
  }
  client_ = options_.make_client(places_.place(), timing_.attempt_limit());
  attempt_ = ++attempts_;
  Listen(client_.get(), attempt_);
}

void PersistentRendezvousClient::Listen(RendezvousClient* client, int attempt) {
  client->Open([this, attempt](Event event) {
    loop_->Post([this, attempt, event = std::move(event)] { OnEvent(attempt, event); });
  });
}

void PersistentRendezvousClient::Use(WaitingSessions::Session session) {
  client_ = std::move(session.client);
  attempt_ = session.attempt;
  at_once_ = true;  // the session may have ended meanwhile
  OnEvent(attempt_, Opened{});
}

void PersistentRendezvousClient::StandBy(int place) {
  if (closed_ || !options_.make_waiting || standing_by_.Has(place)) return;
  auto client = options_.make_waiting(place);
  const int attempt = ++attempts_;
  Listen(client.get(), attempt);
  standing_by_.Add(place, {std::move(client), attempt});
}

void PersistentRendezvousClient::OnEvent(int attempt, Event event) {
  if (closed_) return;
  if (attempt != attempt_) return standing_by_.OnEvent(attempt, event);
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
  if (lost->denied && options_.credentials_outdated &&
      options_.credentials_outdated(places_.place())) {
    lost->denied = false;
  }
  // With TLS, a rendezvous that rejects our certificate only closes the connection.
  if ((lost->denied || lost->closed_after_tls) && options_.denied_at) {
    options_.denied_at(places_.place());
  }
  places_.OnLost(daemon_.ours(), now, lost);
  if (options_.lost) options_.lost(*lost);
  open_ = false;
  client_->Close();  // it is over: returns at once
  waiting_ = true;
  const Duration pause = at_once_ ? Duration{} : timing_.OnLost(lost->refused);
  retry_ = loop_->AddTimer(now + pause, [this] { Connect(); });
}

void PersistentRendezvousClient::OnHeard(const Received& received) {
  spoke_ = true;
  at_once_ = false;
  places_.OnHeard();
  if (options_.heard_at) options_.heard_at(places_.place());
  timing_.OnHeard();
  // From now on Lost tells that the rendezvous is gone. After Waiting the watch goes on: that
  // rendezvous may be about to end.
  if (!std::holds_alternative<Waiting>(received.message)) daemon_.Stop();
}

}  // namespace ddprun
