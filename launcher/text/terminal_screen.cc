#include "launcher/text/terminal_screen.h"

#include "launcher/text/log_format.h"

namespace ddprun {
namespace {

constexpr std::string_view kEraseRow = "\r\x1b[K";
constexpr std::string_view kEraseRest = "\x1b[K";
constexpr std::string_view kWrapOff = "\x1b[?7l";
constexpr std::string_view kWrapOn = "\x1b[?7h";

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t") == std::string_view::npos;
}

// At most `limit` bytes, not ending within a UTF-8 character.
std::string_view CutTo(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return text.substr(0, limit);
}

// The length of the control sequence (ESC [ parameters letter) at the start of `text`, or 0.
std::size_t ControlSequence(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  std::size_t size = 2;
  while (size < text.size() && text[size] >= 0x20 && text[size] < 0x40) ++size;
  return size < text.size() ? size + 1 : text.size();
}

// Removes characters and sequences that move the cursor off the row; colours stay.
std::string OnOneRow(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    std::size_t size = ControlSequence(text);
    if (size == 0) {
      size = text.find('\x1b', 1);
      if (size == std::string_view::npos) size = text.size();
      result += text.substr(0, size);
    } else if (text[size - 1] == 'm') {
      result += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return result;
}

}  // namespace

void TerminalScreen::Lines(std::string_view prefix, std::string_view lines, std::string* out) {
  if (lines.empty()) return;
  if (!bar_.empty()) Erase(out);
  while (!lines.empty()) {
    const std::size_t newline = lines.find('\n');
    *out += prefix;
    *out += AfterCarriageReturn(lines.substr(0, newline));
    *out += '\n';
    lines.remove_prefix(newline == std::string_view::npos ? lines.size() : newline + 1);
  }
  if (!bar_.empty()) Draw(out);
}

void TerminalScreen::Bar(int id, std::string_view prefix, std::string_view text, std::string* out) {
  const std::string shown = OnOneRow(CutTo(text, kMaxBarBytes));
  if (!bar_.empty() && id > bar_id_) return;  // the shown bar has priority
  if (IsBlank(shown)) {
    if (bar_.empty() || id != bar_id_) return;
    Erase(out);
    bar_.clear();
    return;
  }
  bar_id_ = id;
  bar_.assign(prefix);
  bar_ += shown;
  Draw(out);
}

void TerminalScreen::Erase(std::string* out) const { *out += kEraseRow; }

void TerminalScreen::Draw(std::string* out) const {
  *out += '\r';
  *out += kWrapOff;
  *out += bar_;
  *out += kEraseRest;
  *out += kWrapOn;
}

}  // namespace ddprun
