// Text that another user may have written, made fit for one line of a log or a terminal.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_PRINTABLE_TEXT_H_
#define DDPRUN_WORKER_CONTRACT_PRINTABLE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

// Every control character becomes a '?': those of ASCII, tab and newline too, and U+0080 to U+009F,
// which some terminals obey like ESC. All else stays as it is.
inline std::string PrintableText(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte < 0x20 || byte == 0x7f) {
      result += '?';
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      result += '?';
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_PRINTABLE_TEXT_H_
