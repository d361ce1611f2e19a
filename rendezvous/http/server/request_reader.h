// RequestReader: bytes of a connection in, requests out. HTTP/1.1 and 1.0, by Boost.Beast. Pure.
//
// Bounded: it stores at most one request, and bytes of the next requests up to the maximum size of
// one request.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_REQUEST_READER_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_REQUEST_READER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/http/server/message.h"

namespace ddprun::http {

class RequestReader {
 public:
  struct Limits {
    std::size_t header = 0;  // bytes, including the request line
    std::size_t body = 0;
  };
  explicit RequestReader(Limits limits);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  enum class State { kMore, kDone, kBad };

  // Takes the next bytes; "": continues with stored bytes. After kDone, Release must come first;
  // after kBad it must not be called again.
  State Take(std::string_view data);
  // Stores bytes that arrive while the last request is being answered. False: there are too many,
  // so end the connection.
  bool Keep(std::string_view data);

  // A part of the next request has arrived.
  bool begun() const { return begun_ || !kept_.empty(); }

  // After kDone: the request, without the fields that only the connection knows. Sets
  // `*keep_alive`: the client wants to send another request.
  Request Release(bool* keep_alive);

  // After kBad: an HTTP status, and a sentence for a person.
  int bad_status() const { return bad_status_; }
  const std::string& bad_text() const { return bad_text_; }
  bool too_large() const { return bad_status_ == 413 || bad_status_ == 431; }

 private:
  struct Parser;  // keeps Beast out of this header

  State Bad(int status, std::string text);
  State Judge();

  const Limits limits_;
  std::unique_ptr<Parser> parser_;
  std::string kept_;    // bytes that the parser has not taken yet
  bool begun_ = false;  // the parser has taken a part of a request
  Request request_;     // after kDone
  int bad_status_ = 400;
  std::string bad_text_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_REQUEST_READER_H_
