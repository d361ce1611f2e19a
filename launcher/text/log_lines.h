// LogLines: assembles interleaved pieces of several log files into lines for people. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_LOG_LINES_H_
#define DDPRUN_LAUNCHER_TEXT_LOG_LINES_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/core/messages/logs.h"

namespace ddprun {

// "[3]:" for stdout of rank 3, "[3 stderr]:" for its stderr.
std::string LogPrefix(const LogSource& source);

class LogLines {
 public:
  // A longer line is shown as several lines, to bound memory.
  static constexpr std::size_t kMaxLineBytes = 1 << 20;

  struct Options {
    bool prefixed = false;  // each line names its source
    // Chooses the lines to show, without newline; empty: all.
    std::function<bool(std::string_view line)> wanted{};
  };
  explicit LogLines(Options options) : options_(std::move(options)) {}

  // Takes the next piece of this file. Returns the text to show now: whole lines, or the unchanged
  // text if there is neither a prefix nor a choice of lines.
  std::string Add(const LogSource& source, std::string_view text);
  // The file has ended. Returns its last line if that has no newline.
  std::string End(const LogSource& source);

 private:
  void Show(const LogSource& source, std::string_view line, std::string* shown) const;

  const Options options_;
  std::map<LogSource, std::string> unfinished_;  // the beginning of a line
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_LOG_LINES_H_
