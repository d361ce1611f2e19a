// LineFile: appends lines to a file on a thread of its own, so that callers never wait for a disk.
//
// Lines that the disk does not accept in time are dropped and counted. Before the next written
// line, a line says how many are missing. While a disk is full, the lines of that time are lost,
// and no others. After a failed write no part of a line stays in a regular file.
//
// A file that would grow beyond max_file_bytes is renamed to PATH.1, the previous PATH.1 to PATH.2,
// and so on up to `kept` files; the oldest is removed. The file is renamed only if it is a regular
// file and still at its path, because another process may have renamed it.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_LINE_FILE_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_LINE_FILE_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class LineFile {
 public:
  struct Options {
    std::string path;
    std::size_t max_queued_bytes = 4 << 20;
    std::size_t max_file_bytes = 64 << 20;
    int kept = 4;  // renamed files besides the file itself
    // Makes the line that reports `dropped` missing lines, without its newline.
    std::function<std::string(std::size_t dropped)> missing;
    // Gets one sentence when the first line is dropped, one when lines are written again, and one
    // when the file cannot be renamed or opened again. Called on the file's thread and from within
    // Append; must not block or call back.
    std::function<void(std::string_view text)> log;
  };

  explicit LineFile(Options options);
  // Writes the queue, for at most kCloseGrace. A thread that hangs in a write is left behind.
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  static constexpr std::chrono::milliseconds kCloseGrace{1000};

  // Opens the file; creates it (mode 0600) if it is missing. The error names the path. Once, before
  // the other functions.
  absl::Status Open();

  // Queues a line, given without its newline. Returns at once.
  void Append(std::string line);

  // Call it when another process has renamed the file: the thread opens the path again before it
  // writes further lines. Returns at once. If the path cannot be opened, the old file stays in use.
  void Reopen();

  std::size_t dropped() const;  // since the start

  // The name of the `age`-th renamed file; 1 is the newest.
  static std::string RenamedPath(const std::string& path, int age);

 private:
  struct State;
  // Makes the thread write the queue. With the state's mutex held.
  void Schedule();

  const std::shared_ptr<State> state_;  // shared with the thread
  TaskQueue tasks_{"ddprun-events"};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_LINE_FILE_H_
