// Cuts a stream of bytes into lines for the console. Pure; owned and called by one thread.
//
// Only '\n' ends a line; every other byte, NUL and invalid UTF-8 included, passes through. A line
// longer than kMaxLineBytes comes in pieces, cut between UTF-8 characters where there are any.
#ifndef DDPRUN_LAUNCHER_OS_LINE_SPLITTER_H_
#define DDPRUN_LAUNCHER_OS_LINE_SPLITTER_H_

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

  // Is given one or more lines, each with its '\n', or one piece without. Valid during the call.
  using Sink = std::function<void(std::string_view lines)>;

  explicit LineSplitter(Sink sink) : sink_(std::move(sink)) {}

  void Feed(std::string_view bytes);

  // The stream has ended: hands out the half line that is left, if there is one.
  void Finish();

 private:
  void CutPieces();

  const Sink sink_;
  std::string partial_;  // the beginning of a line, at most kMaxLineBytes
};

// The last lines of a stream, bounded in number and bytes. Pure; owned and called by one thread.
class LineTail {
 public:
  static constexpr std::size_t kMaxLines = 20;
  static constexpr std::size_t kMaxBytes = 8 << 10;

  // Takes what LineSplitter hands out. A line that alone is over kMaxBytes is cut at its end.
  void Add(std::string_view lines);

  // Oldest first, without newlines.
  std::vector<std::string> Lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  void AddLine(std::string_view line);

  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_LINE_SPLITTER_H_
