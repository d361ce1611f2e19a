// Shows whole lines on the terminal (or whatever stdout or stderr is) and never makes anyone wait.
//
// One thread writes, blocking, from a bounded queue: the first line at once, then each millisecond
// what has come meanwhile. When the reader does not keep up (a terminal stopped with Ctrl-S, a slow
// pipe) whole lines are dropped and counted; when it has caught up, one line in their place says
//     ddprun: 12034 lines not shown: the terminal did not keep up (they are in /logs/job_1)
// A reader that has gone away (EPIPE, a closed terminal) is given up silently: the job goes on.
//
// On a terminal, one worker's progress bar stands below the lines (terminal_screen.h).
//
// Lines of different workers are never torn or mixed: each line is within one write(), and lines
// that fit into PIPE_BUF together share one, which the kernel keeps whole for other processes too.
//
// Write() and Flush() may be called from any thread.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_CONSOLE_WRITER_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_CONSOLE_WRITER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/text/log_format.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class ConsoleWriter {
 public:
  static constexpr std::size_t kDefaultCapacity = 1 << 20;

  struct Options {
    std::string log_directory;                // named in the line about dropped lines; may be ""
    std::size_t capacity = kDefaultCapacity;  // bytes that may wait; one call may go beyond it
    ConsoleStyle style = {};
  };

  // `fd` must stay open until the process ends: a thread that hangs in a write still has it.
  ConsoleWriter(int fd, Options options);

  // Leaves out what is still queued (call Flush() before); does not wait for a reader that hangs.
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  // Shows `lines`, each with `prefix` in front. A newline is added where the last one has none.
  // Shown whole or dropped whole.
  void Write(std::string_view prefix, std::string_view lines);

  // Only where style().terminal: shows `text` as the progress bar of `id`; blank text takes it
  // away. Of several bars the one with the lowest id is shown. Left out when the terminal is slow.
  void ShowBar(int id, std::string_view prefix, std::string_view text);

  ConsoleStyle style() const { return style_; }

  // That were not shown, since the start.
  std::uint64_t lines_dropped() const;

  // Blocks until everything is shown, or the reader is gone, or until `deadline`. Returns false in
  // the last case.
  bool Flush(std::chrono::steady_clock::time_point deadline);

 private:
  struct State;

  // Has the thread show what is pending. With the state's mutex held.
  void Schedule();

  const ConsoleStyle style_;
  const std::shared_ptr<State> state_;  // shared with the thread
  TaskQueue tasks_{"ddprun-console"};
};

// The agent's two. Where both descriptors are the same file (a terminal, `2>&1 | tee`), they are
// one ConsoleWriter, so that lines of stdout and stderr keep their order and do not tear each
// other. The style of each is that of its descriptor, with TERM and NO_COLOR of the environment.
struct Console {
  std::shared_ptr<ConsoleWriter> out;
  std::shared_ptr<ConsoleWriter> err;
};
Console OpenConsole(int out_fd, int err_fd, const ConsoleWriter::Options& options);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_CONSOLE_WRITER_H_
