// Shows whole lines on stdout or stderr, usually a terminal. No caller waits for the reader, except
// in Flush() and, for at most 100 ms, in the destructor.
//
// One thread writes, blocking, from a bounded queue: the first line at once, then each millisecond
// all new lines. If the reader is too slow (a terminal stopped with Ctrl-S, a slow pipe), whole
// lines are dropped and counted. Once the reader has caught up, one line takes their place:
//     ddprun: 12034 lines not shown: the terminal did not keep up (they are in /logs/job_1)
// If the reader is gone (EPIPE, a closed terminal), the writer stops silently, and the job
// continues.
//
// On a terminal, one worker's progress bar stands below the lines (terminal_screen.h).
//
// Lines of different workers are never torn or mixed: each line is written by one write(). Lines
// that together fit into PIPE_BUF share a write(), which the kernel does not mix with the output of
// other processes.
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
    std::size_t capacity = kDefaultCapacity;  // queued bytes; one call may exceed it
    ConsoleStyle style = {};
  };

  // `fd` must stay open until the process ends: a thread that hangs in a write still uses it.
  ConsoleWriter(int fd, Options options);

  // Drops queued lines (call Flush() before).
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  // Shows `lines`, each with `prefix` in front. Adds a newline if the last line has none. Either
  // all lines of a call are shown or none.
  void Write(std::string_view prefix, std::string_view lines);

  // Only if style().terminal: sets `text` as the progress bar of `id`; blank text removes it. Of
  // all bars, the bar with the lowest id is shown. If the terminal is slow, a new text is skipped,
  // but a removal is not.
  void ShowBar(int id, std::string_view prefix, std::string_view text);

  ConsoleStyle style() const { return style_; }

  // The number of dropped lines since the start.
  std::uint64_t lines_dropped() const;

  // Blocks until all lines are shown, the reader is gone, or `deadline` is reached. False: the
  // deadline was reached.
  bool Flush(std::chrono::steady_clock::time_point deadline);

 private:
  struct State;

  // Makes the thread show the pending lines. The caller holds the state's mutex.
  void Schedule();

  const ConsoleStyle style_;
  const std::shared_ptr<State> state_;  // shared with the thread
  TaskQueue tasks_{"ddprun-console"};
};

// The agent's stdout and stderr. If both descriptors are the same file (a terminal, `2>&1 | tee`),
// the streams share one ConsoleWriter, so that their lines keep their order and do not tear each
// other. The style of each depends on its descriptor, and on TERM and NO_COLOR.
struct Console {
  std::shared_ptr<ConsoleWriter> out;
  std::shared_ptr<ConsoleWriter> err;
};
Console OpenConsole(int out_fd, int err_fd, const ConsoleWriter::Options& options);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_CONSOLE_WRITER_H_
