// Responder and Stream: with these a handler answers a request, at once or later, whole or in
// pieces.
//
// Thread-safe. Both may outlive the connection and the server: later writes are dropped.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONDER_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONDER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/http/server/message.h"

namespace ddprun::http {

// A body in pieces, until one side closes. The connection does not depend on the Stream's lifetime:
// if a Stream is destroyed without Close, the connection stays open until the client leaves.
class Stream {
 public:
  using Piece = std::shared_ptr<const std::string>;  // shared by many viewers

  virtual ~Stream() = default;

  // Never blocks. False: the stream is over. If more than ServerOptions::max_unsent bytes would be
  // unsent, the client is disconnected. While nothing is unsent, a piece of any size is accepted.
  virtual bool Write(Piece piece) = 0;
  bool Write(std::string piece) {
    return Write(std::make_shared<const std::string>(std::move(piece)));
  }
  // Ends the stream once everything written is sent.
  virtual void Close() = 0;
  // Ends the stream at once, and drops unsent bytes. For a client that reads too slowly; it is
  // counted as a slow reader.
  virtual void Abort() = 0;

  // `closed` is called once, after either side has ended the connection. If the connection is
  // already over, it is called soon. It is called on the server's thread; if Shutdown cuts the
  // connection off, on the thread that calls Shutdown; never after Shutdown. Must not block.
  virtual void OnClose(std::function<void()> closed) = 0;
  // `sent` is called on the server's thread whenever the kernel has taken some bytes, for callers
  // with back-pressure. Must not block.
  virtual void OnSent(std::function<void()> sent) = 0;
  // Written bytes that the kernel has not taken yet.
  virtual std::size_t unsent() const = 0;
};

// Answers one request. Only the first answer is sent. A Responder that is destroyed without an
// answer sends status 500.
class Responder {
 public:
  virtual ~Responder() = default;

  // Sends a complete answer.
  virtual void Send(Response response) = 0;
  // Sends the head, and the first part of the body if there is one. The rest follows in pieces
  // (server-sent events). Never returns null.
  virtual std::shared_ptr<Stream> Open(Response head) = 0;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONDER_H_
