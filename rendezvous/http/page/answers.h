// The page's answers in JSON. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_ANSWERS_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_ANSWERS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "rendezvous/http/server/message.h"

namespace ddprun::http {

Response JsonAnswer(std::string json);
Response JsonAnswer(const nlohmann::ordered_json& json);

// {"error": text}
Response ErrorAnswer(int status, const std::string& text);
// The same for an error of the rendezvous, with the matching HTTP status.
Response ErrorAnswer(const absl::Status& why);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_ANSWERS_H_
