#include "rendezvous/wire/text.h"

#include <algorithm>
#include <cstdint>

namespace ddprun::wire {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";     // U+2026

// Length of the well-formed character at the beginning of `text`, or 0. Follows table 3-7 of the
// Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  std::uint8_t low = 0x80;  // range of the second byte
  std::uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

}  // namespace

std::string CleanText(std::string_view text, std::size_t max_bytes) {
  std::string clean;
  std::size_t cut = 0;  // longest prefix of `clean` that leaves room for the ellipsis
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    const std::string_view character = length == 0 ? kReplacement : text.substr(0, length);
    if (clean.size() + character.size() > max_bytes) {
      clean.resize(cut);
      clean.append(kEllipsis);
      break;
    }
    clean.append(character);
    text.remove_prefix(std::max<std::size_t>(length, 1));
    if (clean.size() + kEllipsis.size() <= max_bytes) cut = clean.size();
  }
  return clean;
}

}  // namespace ddprun::wire
