#include "rendezvous/http/page/answers.h"

#include <utility>

#include "rendezvous/json/dump.h"

namespace ddprun::http {
namespace {

constexpr const char* kJson = "application/json";

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

Response JsonAnswer(std::string json) {
  return {.status = 200, .content_type = kJson, .body = std::move(json)};
}

Response JsonAnswer(const nlohmann::ordered_json& json) { return JsonAnswer(Dump(json, -1)); }

Response ErrorAnswer(int status, const std::string& text) {
  return {.status = status,
          .content_type = kJson,
          .body = Dump(nlohmann::ordered_json{{"error", text}}, -1)};
}

Response ErrorAnswer(const absl::Status& why) {
  return ErrorAnswer(HttpStatusOf(why.code()), std::string(why.message()));
}

}  // namespace ddprun::http
