// LogPump carries one worker's stdout and stderr to its log files and to the console.
//
// The files get every byte as it came, and nothing is ever lost (but at a file's greatest size or
// on a full disk: writer_thread.h): when the disk is slow, the pump stops reading, the pipe fills
// and the worker waits. The console gets whole lines with a prefix ("[default3]:step 17"), the
// worker's stdout on our stdout and its stderr on our stderr; when the terminal is slow, lines are
// left out there (console_writer.h). On a terminal the prefix is coloured, and a line with carriage
// returns is shown as a progress bar until it ends. Memory is bounded whatever the worker writes.
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
    std::string directory;  // gets stdout.log and stderr.log, appended to; "" for no files
    std::string prefix;     // of every line on the console, for example "[default3]:"
    Console console;        // either may be null: that stream is not shown
    int rank = 0;           // chooses the colour of the prefix
    int local_rank = 0;
    // Where one is given, lines go through it instead of straight to the console. Must outlive this
    // object.
    CollapsingConsole* collapse_out = nullptr;
    CollapsingConsole* collapse_err = nullptr;
    // Where one is given, it counts what is read. Must outlive this object.
    LogTotals* totals = nullptr;
  };

  // Reads from now on. `loop` and `files` must outlive this object. The pipes are the nonblocking
  // read ends of SpawnedProcess.
  LogPump(EventLoop* loop, WriterThread* files, Options options, UniqueFd stdout_pipe,
          UniqueFd stderr_pipe);

  // As ReadToEnd().
  ~LogPump();
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;

  // The worker is dead: reads what is in the pipes now and closes them. A half line at the end is
  // shown as a line; the file gets it as it is. What a surviving grandchild writes later is not
  // waited for: it gets an EPIPE.
  void ReadToEnd();

  // Both pipes have ended by themselves or were read to the end.
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
