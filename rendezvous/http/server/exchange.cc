#include "rendezvous/http/server/exchange.h"

#include <utility>

namespace ddprun::http {

bool OpenStream::Write(Piece piece) {
  bool cut = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    cut = unsent_ > 0 && unsent_ + piece->size() > max_unsent_;
    closed_ = cut;
    if (!cut) unsent_ += piece->size();
  }
  mailbox_->Post([connection = connection_, piece = std::move(piece), cut] {
    const auto alive = connection.lock();
    if (alive == nullptr) return;
    if (cut) {
      alive->CutOff();
    } else {
      alive->Push(piece);
    }
  });
  return !cut;
}

void OpenStream::Close() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
  }
  mailbox_->Post([connection = connection_] {
    if (const auto alive = connection.lock()) alive->EndStream();
  });
}

void OpenStream::Abort() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  mailbox_->Post([connection = connection_] {
    if (const auto alive = connection.lock()) alive->CutOff();
  });
}

void OpenStream::OnClose(std::function<void()> closed) {
  std::unique_lock lock(mutex_);
  on_close_ = std::move(closed);
  if (!ended_) return;
  lock.unlock();
  mailbox_->Post([self = shared_from_this()] { self->Ended(); });
}

void OpenStream::OnSent(std::function<void()> sent) {
  const std::lock_guard lock(mutex_);
  on_sent_ = std::move(sent);
}

std::size_t OpenStream::unsent() const {
  const std::lock_guard lock(mutex_);
  return unsent_;
}

void OpenStream::HeadWaits(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_ += bytes;
}

void OpenStream::Sent(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  unsent_ -= bytes;
  const std::function<void()> sent = on_sent_;
  lock.unlock();
  if (sent) sent();
}

void OpenStream::Ended() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  ended_ = true;
  const std::function<void()> closed = std::exchange(on_close_, nullptr);
  on_sent_ = nullptr;
  lock.unlock();
  if (closed) closed();
}

Exchange::~Exchange() { Send({.status = 500, .body = "this request was not answered\n"}); }

void Exchange::Send(Response response) {
  if (answered_.exchange(true)) return;
  mailbox_->Post([connection = connection_, response = std::move(response)] {
    if (const auto alive = connection.lock()) alive->Answer(response);
  });
}

std::shared_ptr<Stream> Exchange::Open(Response head) {
  auto stream = std::make_shared<OpenStream>(mailbox_, connection_, max_unsent_);
  if (answered_.exchange(true)) {
    stream->Ended();
    return stream;
  }
  const bool posted = mailbox_->Post([connection = connection_, stream, head = std::move(head)] {
    if (const auto alive = connection.lock()) {
      alive->Open(stream, head);
    } else {
      stream->Ended();
    }
  });
  if (!posted) stream->Ended();
  return stream;
}

}  // namespace ddprun::http
