#include "launcher/text/line_splitter.h"

#include <utility>

#include "launcher/text/log_format.h"

namespace ddprun {
namespace {

// A cut at `limit` or before it, not within a UTF-8 character (up to three continuation bytes).
std::size_t CutBefore(std::string_view text, std::size_t limit) {
  std::size_t cut = limit;
  while (cut > limit - 3 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80 ? limit : cut;
}

}  // namespace

void LineSplitter::Feed(std::string_view bytes) {
  FeedLines(bytes);
  if (bar_sink_ && !partial_.empty()) ShowBar();
}

void LineSplitter::FeedLines(std::string_view bytes) {
  if (!partial_.empty()) {
    const std::size_t first = bytes.find('\n');
    const std::size_t size = first == std::string_view::npos ? bytes.size() : first + 1;
    partial_.append(bytes.substr(0, size));
    bytes.remove_prefix(size);
    CutPieces();
    if (first == std::string_view::npos) return;
    sink_(partial_);
    partial_.clear();
  }
  const std::size_t last = bytes.rfind('\n');
  if (last != std::string_view::npos) {
    sink_(bytes.substr(0, last + 1));
    bytes.remove_prefix(last + 1);
  }
  partial_.assign(bytes);
  CutPieces();
}

void LineSplitter::CutPieces() {
  while (partial_.size() > kMaxLineBytes + 1 ||
         (partial_.size() == kMaxLineBytes + 1 && partial_.back() != '\n')) {
    const std::size_t cut = CutBefore(partial_, kMaxLineBytes);
    sink_(std::string_view(partial_).substr(0, cut));
    partial_.erase(0, cut);
  }
}

void LineSplitter::ShowBar() {
  const std::string_view text = AfterCarriageReturn(partial_);
  const std::size_t start = static_cast<std::size_t>(text.data() - partial_.data());
  if (start == 0 && partial_.back() != '\r') return;  // the beginning of a plain line
  bar_sink_(text);
  // Drop overwritten text, but keep one carriage return, which marks a bar.
  if (start > 1) partial_.erase(0, start - 1);
}

void LineSplitter::Finish() {
  if (partial_.empty()) return;
  sink_(std::exchange(partial_, {}));
}

void LineTail::Add(std::string_view lines) {
  if (lines.ends_with('\n')) lines.remove_suffix(1);
  // In a flood only the last few lines matter.
  std::size_t newline = lines.size();
  for (std::size_t i = 0; i < kMaxLines && newline != std::string_view::npos; ++i) {
    newline = newline == 0 ? std::string_view::npos : lines.rfind('\n', newline - 1);
  }
  if (newline != std::string_view::npos) lines.remove_prefix(newline + 1);
  for (;;) {
    const std::size_t end = lines.find('\n');
    AddLine(lines.substr(0, end));
    if (end == std::string_view::npos) return;
    lines.remove_prefix(end + 1);
  }
}

void LineTail::AddLine(std::string_view line) {
  line = AfterCarriageReturn(line).substr(0, kMaxBytes);
  lines_.emplace_back(line);
  bytes_ += line.size();
  while (lines_.size() > kMaxLines || bytes_ > kMaxBytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
}

}  // namespace ddprun
