#include "launcher/text/top/screen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ddprun::top {
namespace {

constexpr bool BeginsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// The escape code of a style, with the eight colours that every terminal has.
absl::string_view CodeOf(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kTitle:
      return "\x1b[1m";
    case Style::kHead:
      return "\x1b[4m";
    case Style::kSelected:
      return "\x1b[7m";
    case Style::kGood:
      return "\x1b[32m";
    case Style::kBusy:
      return "\x1b[33m";
    case Style::kBad:
      return "\x1b[1;31m";
    case Style::kQuiet:
      return "\x1b[2m";
  }
  return "";
}

}  // namespace

absl::string_view Screen::Begin() { return "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"; }
absl::string_view Screen::End() { return "\x1b[?7h\x1b[?25h\x1b[?1049l"; }

std::string Screen::Show(const std::vector<Line>& lines, Size size) {
  const auto rows = static_cast<std::size_t>(std::max(size.rows, 1));
  const auto columns = static_cast<std::size_t>(std::max(size.columns, 1));
  std::string out;
  if (shown_.empty() || size != size_) {
    size_ = size;
    shown_.assign(rows, Line());
    out = "\x1b[2J";
  }
  for (std::size_t row = 0; row < rows; ++row) {
    Line line = row < lines.size() ? lines[row] : Line();
    // A selected line fills the whole width.
    line.text = line.style == Style::kSelected ? Fill(line.text, columns) : Cut(line.text, columns);
    if (line == shown_[row]) continue;
    const absl::string_view code = CodeOf(line.style);
    // Erase first: after a full line the cursor stands on its last character.
    absl::StrAppend(&out, "\x1b[", row + 1, ";1H\x1b[K", code, line.text,
                    code.empty() ? "" : "\x1b[m");
    shown_[row] = std::move(line);
  }
  return out;
}

std::size_t Width(absl::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

std::string Cut(absl::string_view text, std::size_t columns) {
  if (Width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::size_t end = 0;
  for (std::size_t characters = 0; end < text.size(); ++end) {
    if (BeginsCharacter(text[end]) && ++characters == columns) break;
  }
  return absl::StrCat(text.substr(0, end), "…");
}

std::string Fill(absl::string_view text, std::size_t columns) {
  std::string filled = Cut(text, columns);
  filled.append(columns - Width(filled), ' ');
  return filled;
}

}  // namespace ddprun::top
