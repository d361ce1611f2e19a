#include "rendezvous/json/dump.h"

#include <cstddef>
#include <string_view>

#include "absl/strings/str_format.h"
#include "worker/contract/without_controls.h"

namespace ddprun {

std::string Dump(const nlohmann::ordered_json& json, int indent) {
  const std::string text =
      json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t control =
        text[at] == '\n' ? 0 : ControlLength(std::string_view(text).substr(at));
    if (control == 0) {
      result += text[at++];
      continue;
    }
    // The last byte of each sequence is the character's code.
    at += control;
    absl::StrAppendFormat(&result, "\\u%04x", static_cast<unsigned char>(text[at - 1]));
  }
  return result;
}

}  // namespace ddprun
