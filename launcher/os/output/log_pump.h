// LogPump carries one worker's stdout and stderr to its log files and to the console.
//
// The files get every byte unchanged. Bytes are lost only at a file's maximum size, on a full disk,
// or if the file cannot be written for another reason (writer_thread.h). If the disk is slow, the
// pump stops reading, the pipe fills and the worker waits. The console gets whole lines with a
// prefix ("[default3]:step 17"), stdout on the agent's stdout and stderr on its stderr; a slow
// terminal misses lines (console_writer.h). On a terminal the prefix is coloured, and a line with
// carriage returns is a progress bar until it ends. Memory is bounded for any output.
//
// Belongs to the agent and its loop's thread; one pump per worker and generation.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_LOG_PUMP_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_LOG_PUMP_H_

#include <memory>
#include <string>
#include <vector>

#include "launcher/os/event_loop.h"
#include "launcher/os/output/collapsing_console.h"
#include "launcher/os/output/console_writer.h"
#include "launcher/os/output/log_totals.h"
#include "launcher/os/output/writer_thread.h"
#include "launcher/text/line_splitter.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class LogPump {
 public:
  struct Options {
    std::string directory;  // of stdout.log and stderr.log, which are appended to; "": no files
    std::string prefix;     // of every line on the console, for example "[default3]:"
    Console console;        // either may be null: that stream is not shown
    int rank = 0;           // chooses the colour of the prefix
    int local_rank = 0;
    // If set, lines go through it instead of directly to the console. Must outlive this object.
    CollapsingConsole* collapse_out = nullptr;
    CollapsingConsole* collapse_err = nullptr;
    // If set, counts the bytes that are read. Must outlive this object.
    LogTotals* totals = nullptr;
  };

  // Reads from now on. `loop` and `files` must outlive this object. The pipes are the nonblocking
  // read ends of SpawnedProcess.
  LogPump(EventLoop* loop, WriterThread* files, Options options, UniqueFd stdout_pipe,
          UniqueFd stderr_pipe);

  // Calls ReadToEnd().
  ~LogPump();
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;

  // Call it when the worker is dead: reads the present content of the pipes and closes them. A
  // partial last line is shown as a line; the file gets it unchanged. If a child of the worker
  // survives and writes later, it gets SIGPIPE, or EPIPE if it ignores that signal.
  void ReadToEnd();

  // True if both pipes have ended, or ReadToEnd() was called.
  bool finished() const;

  // The last lines of stderr, oldest first: at most 20, together at most 8 KiB.
  std::vector<std::string> StderrTail() const { return stderr_tail_.Lines(); }

 private:
  class Stream;

  LineTail stderr_tail_;
  std::unique_ptr<Stream> out_;
  std::unique_ptr<Stream> err_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_LOG_PUMP_H_
