#include "launcher/text/printable.h"

#include <cstddef>

namespace ddprun {

std::string Printable(absl::string_view text) {
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
