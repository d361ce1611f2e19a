#include "launcher/text/error_file.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace ddprun {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxMessageBytes = 2000;
constexpr int kMaxDepth =
    16;  // torch writes 3; each level costs a stack frame when JSON is written

// Drops levels deeper than kMaxDepth. Returns no object if `text` is not JSON.
OrderedJson Parse(std::string_view text) {
  const auto keep = [](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    return depth < kMaxDepth;
  };
  return OrderedJson::parse(text, keep, /*allow_exceptions=*/false);
}

// The string with this name in `object`; "": none.
std::string StringIn(const OrderedJson& object, const char* name) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_string()) return "";
  return object[name];
}

std::vector<std::string> TracebackOf(const OrderedJson& message) {
  if (!message.is_object() || !message.contains("extraInfo")) return {};
  const std::string text = StringIn(message["extraInfo"], "py_callstack");
  std::vector<std::string> lines;
  for (const absl::string_view line :
       absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), '\n', absl::SkipEmpty())) {
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

WorkerError ParseErrorFile(std::string_view text) {
  const OrderedJson json = Parse(text);
  if (!json.is_object() || !json.contains("message")) return {};
  const OrderedJson& message = json["message"];
  WorkerError error{StringIn(message.is_object() ? message : json, "message"),
                    TracebackOf(message)};
  std::replace(error.message.begin(), error.message.end(), '\n', ' ');
  if (error.message.size() > kMaxMessageBytes) error.message.resize(kMaxMessageBytes);
  return error;
}

std::string ErrorFileOfLauncher(std::string_view text, const ExitStatus& status) {
  OrderedJson json = Parse(text);
  if (!json.is_object()) return "";
  if (json.contains("message") && json["message"].is_object()) {
    json["message"]["errorCode"] = status.signal != 0 ? -status.signal : status.code;
  }
  return json.dump(-1, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace);
}

}  // namespace ddprun
