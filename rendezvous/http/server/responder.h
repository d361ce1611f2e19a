// Responder and Stream: how a handler answers a request, at once or later, whole or in pieces.
//
// Thread-safe. Both may outlive the connection and the server: what is written then is dropped.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONDER_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONDER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/http/server/message.h"

namespace ddprun::http {

// A body in pieces, until one side closes. Nobody needs to keep it for the connection's sake, but
// a Stream that was dropped without Close stays open until the client goes.
class Stream {
 public:
  using Piece = std::shared_ptr<const std::string>;  // one for many viewers

  virtual ~Stream() = default;

  // Never blocks. False where the client is gone, or has more than ServerOptions::max_unsent bytes
  // not yet read: it is cut off then. A piece of any size is taken while nothing is unsent.
  virtual bool Write(Piece piece) = 0;
  bool Write(std::string piece) {
    return Write(std::make_shared<const std::string>(std::move(piece)));
  }
  // Ends it, once what was written is sent.
  virtual void Close() = 0;
  // Ends it at once, and drops what was not sent.
  virtual void Abort() = 0;

  // Called once, on the server's thread, when either side has ended the connection: soon, if
  // it has already; not after the server's Shutdown. Must not block.
  virtual void OnClose(std::function<void()> closed) = 0;
  // Called on the server's thread whenever the kernel has taken some of it: for who passes on
  // back-pressure. Must not block.
  virtual void OnSent(std::function<void()> sent) = 0;
  // Bytes that were written and that the kernel has not taken.
  virtual std::size_t unsent() const = 0;
};

// Answers one request, once: what comes after the first answer is dropped. One that is destroyed
// without an answer answers 500.
class Responder {
 public:
  virtual ~Responder() = default;

  // The whole answer.
  virtual void Send(Response response) = 0;
  // The head and its body so far, if any; the rest follows in pieces (server-sent events). Never
  // null.
  virtual std::shared_ptr<Stream> Open(Response head) = 0;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONDER_H_
