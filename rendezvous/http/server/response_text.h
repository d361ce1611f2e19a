// A response as the bytes that are sent. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONSE_TEXT_H_
#define DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONSE_TEXT_H_

#include <cstdint>
#include <string>

#include "rendezvous/http/server/message.h"

namespace ddprun::http {

enum class BodyEnd {
  kLength,  // the Response has the whole body
  kClose,   // the body ends with the connection
};

struct ResponseForm {
  bool keep_alive = true;     // only with kLength
  bool without_body = false;  // HEAD
  BodyEnd end = BodyEnd::kLength;
};

// Head and body. `unix_seconds`: the wall clock, for Date.
std::string ResponseText(const Response& response, ResponseForm form, std::int64_t unix_seconds);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_SERVER_RESPONSE_TEXT_H_
