#include "launcher/text/log_format.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

bool IsNameCharacter(char c, bool first) {
  const auto byte = static_cast<unsigned char>(c);
  return absl::ascii_isalpha(byte) || c == '_' || (!first && absl::ascii_isdigit(byte));
}

// The length of the name at the start of `text`.
std::size_t NameLength(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size() && IsNameCharacter(text[size], size == 0)) ++size;
  return size;
}

// nullptr: no such value.
const std::string* FindValue(const PrefixValues& values, std::string_view name) {
  if (name == "role_name") return &values.role_name;
  if (name == "rank") return &values.rank;
  if (name == "local_rank") return &values.local_rank;
  return nullptr;
}

}  // namespace

ConsoleStyle StyleFor(bool is_terminal, std::string_view term, std::string_view no_color) {
  ConsoleStyle style;
  style.terminal = is_terminal && !term.empty() && term != "dumb";
  style.colour = style.terminal && no_color.empty();
  return style;
}

std::string FormatRanks(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ",", ranks[first]);
    if (last > first) absl::StrAppend(&text, "-", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string ExpandPrefix(std::string_view text, const PrefixValues& values) {
  std::string result;
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    result += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar);
    if (text.starts_with("$$")) {
      result += '$';
      text.remove_prefix(2);
      continue;
    }
    const bool braces = text.starts_with("${");
    const std::size_t start = braces ? 2 : 1;
    const std::size_t length = NameLength(text.substr(start));
    const bool closed = !braces || text.substr(start + length).starts_with("}");
    const std::string* value = closed ? FindValue(values, text.substr(start, length)) : nullptr;
    const std::size_t size = value == nullptr ? 1 : start + length + (braces ? 1 : 0);
    result += value == nullptr ? text.substr(0, size) : std::string_view(*value);
    text.remove_prefix(size);
  }
  return result;
}

std::string ColourPrefix(std::string_view prefix, int rank) {
  // Cyan, green, yellow, magenta, blue, bright cyan; red is reserved for errors.
  constexpr int kPalette[] = {36, 32, 33, 35, 34, 96};
  if (prefix.empty()) return "";
  return absl::StrCat("\x1b[", kPalette[rank % std::size(kPalette)], "m",
                      absl::string_view(prefix.data(), prefix.size()), "\x1b[0m");
}

std::string_view AfterCarriageReturn(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t last = line.rfind('\r');
  if (last != std::string_view::npos) line.remove_prefix(last + 1);
  return line;
}

}  // namespace ddprun
