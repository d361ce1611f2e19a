// The Responder and the Stream of a connection. Internal to this folder.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_EXCHANGE_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_EXCHANGE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "rendezvous/http/server/mailbox.h"
#include "rendezvous/http/server/message.h"
#include "rendezvous/http/server/responder.h"

namespace ddprun::http {

class OpenStream;

// The connection, as seen by the Responder and the Stream that answer its request. Called on the
// server's thread.
class Answerable {
 public:
  virtual void Answer(const Response& response) = 0;
  virtual void Open(std::shared_ptr<OpenStream> stream, const Response& head) = 0;
  virtual void Push(Stream::Piece piece) = 0;
  virtual void EndStream() = 0;
  virtual void CutOff() = 0;  // the client reads too slowly

 protected:
  ~Answerable() = default;
};

class OpenStream final : public Stream, public std::enable_shared_from_this<OpenStream> {
 public:
  OpenStream(std::shared_ptr<Mailbox> mailbox, std::weak_ptr<Answerable> connection,
             std::size_t max_unsent)
      : mailbox_(std::move(mailbox)), connection_(std::move(connection)), max_unsent_(max_unsent) {}

  bool Write(Piece piece) override;
  void Close() override;
  void Abort() override;
  void OnClose(std::function<void()> closed) override;
  void OnSent(std::function<void()> sent) override;
  std::size_t unsent() const override;

  // Called by the connection. HeadWaits: `bytes` of the head are unsent, too. Sent: the kernel has
  // taken `bytes`. Ended: the connection has ended.
  void HeadWaits(std::size_t bytes);
  void Sent(std::size_t bytes);
  void Ended();

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  const std::weak_ptr<Answerable> connection_;
  const std::size_t max_unsent_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t unsent_ = 0;
  bool closed_ = false;  // no further writes
  bool ended_ = false;   // its connection has ended
  std::function<void()> on_close_;
  std::function<void()> on_sent_;
};

class Exchange final : public Responder {
 public:
  Exchange(std::shared_ptr<Mailbox> mailbox, std::weak_ptr<Answerable> connection,
           std::size_t max_unsent)
      : mailbox_(std::move(mailbox)), connection_(std::move(connection)), max_unsent_(max_unsent) {}
  ~Exchange() override;

  void Send(Response response) override;
  std::shared_ptr<Stream> Open(Response head) override;

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  const std::weak_ptr<Answerable> connection_;
  const std::size_t max_unsent_;
  std::atomic<bool> answered_{false};
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_EXCHANGE_H_
