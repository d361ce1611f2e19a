// LogLines: makes of the pieces of several log files, which come in turns, the lines that a person
// reads. Pure.
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

// "[3]:" for what rank 3 wrote to stdout, "[3 stderr]:".
std::string LogPrefix(const LogSource& source);

class LogLines {
 public:
  // A line that is longer is shown as several, so that memory is bounded.
  static constexpr std::size_t kMaxLineBytes = 1 << 20;

  struct Options {
    bool prefixed = false;  // each line says whose it is
    // Which lines are shown; empty: all. Without the newline.
    std::function<bool(std::string_view line)> wanted{};
  };
  explicit LogLines(Options options) : options_(std::move(options)) {}

  // What follows in this file. Returns what can be shown now: whole lines, or the text as it is
  // where neither a prefix nor a choice needs them.
  std::string Add(const LogSource& source, std::string_view text);
  // The file has ended. Returns its last line, if that has no end.
  std::string End(const LogSource& source);

 private:
  void Show(const LogSource& source, std::string_view line, std::string* shown) const;

  const Options options_;
  std::map<LogSource, std::string> unfinished_;  // the begin of a line
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_LOG_LINES_H_
