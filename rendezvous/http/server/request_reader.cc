#include "rendezvous/http/server/request_reader.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/http/server/target.h"

namespace ddprun::http {

namespace beast_http = boost::beast::http;

struct RequestReader::Parser {
  explicit Parser(Limits limits) {
    parser.eager(true);  // parse the body, too
    parser.header_limit(static_cast<std::uint32_t>(limits.header));
    parser.body_limit(limits.body);
  }
  beast_http::request_parser<beast_http::string_body> parser;
};

RequestReader::RequestReader(Limits limits)
    : limits_(limits), parser_(std::make_unique<Parser>(limits)) {}

RequestReader::~RequestReader() = default;

RequestReader::State RequestReader::Take(std::string_view data) {
  kept_.append(data);
  auto& parser = parser_->parser;
  while (!parser.is_done() && !kept_.empty()) {
    boost::beast::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(kept_), error);
    begun_ = begun_ || used > 0;
    kept_.erase(0, used);
    if (error == beast_http::error::need_more) return State::kMore;
    if (error == beast_http::error::header_limit) {
      return Bad(431, absl::StrCat("the head is larger than ", limits_.header, " bytes"));
    }
    if (error == beast_http::error::body_limit) {
      return Bad(413, absl::StrCat("the body is larger than ", limits_.body, " bytes"));
    }
    if (error) return Bad(400, "this is no request of HTTP/1.1");
  }
  return parser.is_done() ? Judge() : State::kMore;
}

RequestReader::State RequestReader::Judge() {
  const auto& message = parser_->parser.get();
  const boost::beast::string_view text = message.target();
  auto target = ParseTarget({text.data(), text.size()});
  if (!target) return Bad(400, "this server has no such target");
  if (message.count(beast_http::field::host) != 1) {
    return Bad(400, "a request must have exactly one Host header");
  }
  request_ = Request();
  request_.method = std::string(message.method_string());
  request_.target_path = std::move(target->path);
  request_.query = std::move(target->query);
  for (const auto& field : message) {
    std::string& value = request_.headers[absl::AsciiStrToLower(std::string(field.name_string()))];
    if (!value.empty()) value += ", ";
    value += std::string(field.value());
  }
  return State::kDone;
}

bool RequestReader::Keep(std::string_view data) {
  kept_.append(data);
  return kept_.size() <= limits_.header + limits_.body;
}

Request RequestReader::Release(bool* keep_alive) {
  auto& message = parser_->parser.get();
  *keep_alive = message.keep_alive();
  request_.body = std::move(message.body());
  parser_ = std::make_unique<Parser>(limits_);
  begun_ = false;
  return std::move(request_);
}

RequestReader::State RequestReader::Bad(int status, std::string text) {
  bad_status_ = status;
  bad_text_ = std::move(text);
  return State::kBad;
}

}  // namespace ddprun::http
