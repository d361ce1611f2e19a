// Replaces control characters, so that untrusted text is safe in a log or a terminal.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_WITHOUT_CONTROLS_H_
#define DDPRUN_WORKER_CONTRACT_WITHOUT_CONTROLS_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

// The length of the control character with which UTF-8 text begins. 1: ASCII. 2: U+0080 to U+009F,
// which some terminals obey like ESC. 0: the text does not begin with a control character.
inline std::size_t ControlLength(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  if (text.empty()) return 0;
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  return text.size() > 1 && byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0 ? 2 : 0;
}

// Replaces every control character not in `kept` by a '?'.
inline std::string WithoutControls(std::string_view text, std::string_view kept = {}) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const bool keep = kept.find(text[0]) != std::string_view::npos;
    const std::size_t control = keep ? 0 : ControlLength(text);
    result += control > 0 ? '?' : text[0];
    text.remove_prefix(control > 0 ? control : 1);
  }
  return result;
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_WITHOUT_CONTROLS_H_
