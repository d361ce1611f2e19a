#include "rendezvous/json/dump.h"

#include <cstddef>
#include <string_view>

#include "absl/strings/str_format.h"
#include "worker/contract/without_controls.h"

namespace ddprun {
namespace {

// The place of the first control character at or after `at` that is not a line feed; npos: none.
std::size_t FindControl(std::string_view text, std::size_t at) {
  for (; at < text.size(); ++at) {
    if (text[at] != '\n' && ControlLength(text.substr(at)) > 0) return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::string Dump(const nlohmann::ordered_json& json, int indent) {
  std::string text =
      json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::size_t control = FindControl(text, 0);
  if (control == std::string_view::npos) return text;
  std::string result;
  std::size_t at = 0;
  for (; control != std::string_view::npos; control = FindControl(text, at)) {
    result.append(text, at, control - at);
    at = control + ControlLength(std::string_view(text).substr(control));
    // The last byte of each sequence is the character's code.
    absl::StrAppendFormat(&result, "\\u%04x", static_cast<unsigned char>(text[at - 1]));
  }
  return result.append(text, at);
}

}  // namespace ddprun
