// Cuts a stream of bytes into lines for the console. Pure; owned and called by one thread.
//
// Only '\n' ends a line; every other byte, NUL and invalid UTF-8 included, passes through. A line
// longer than kMaxLineBytes comes in pieces, cut between UTF-8 characters.
//
// For a terminal, an unfinished line with carriage returns is a progress bar. It is handed out at
// each change, and again as a line when it ends.
#ifndef DDPRUN_LAUNCHER_TEXT_LINE_SPLITTER_H_
#define DDPRUN_LAUNCHER_TEXT_LINE_SPLITTER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

class LineSplitter {
 public:
  static constexpr std::size_t kMaxLineBytes = 64 << 10;

  // Gets one or more lines, each with its '\n', or one piece without a '\n'. `lines` is valid only
  // during the call.
  using Sink = std::function<void(std::string_view lines)>;

  // Gets the unfinished line as a terminal would show it, without carriage returns.
  using BarSink = std::function<void(std::string_view text)>;

  explicit LineSplitter(Sink sink, BarSink bar_sink = nullptr)
      : sink_(std::move(sink)), bar_sink_(std::move(bar_sink)) {}

  void Feed(std::string_view bytes);

  // The stream has ended: hands out the partial last line, if any.
  void Finish();

 private:
  void FeedLines(std::string_view bytes);
  void CutPieces();
  void ShowBar();

  const Sink sink_;
  const BarSink bar_sink_;
  std::string partial_;  // the beginning of a line, at most kMaxLineBytes
};

// The last lines of a stream, bounded in number and bytes. Pure; owned and called by one thread.
class LineTail {
 public:
  static constexpr std::size_t kMaxLines = 20;
  static constexpr std::size_t kMaxBytes = 8 << 10;

  // Takes LineSplitter's output. A line with carriage returns is kept as a terminal would show it.
  // If a single line exceeds kMaxBytes, its end is cut.
  void Add(std::string_view lines);

  // Oldest first, without newlines.
  std::vector<std::string> Lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  void AddLine(std::string_view line);

  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_LINE_SPLITTER_H_
