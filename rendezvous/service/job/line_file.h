// A file that lines are appended to, by a thread of its own: who has a line never waits for a disk.
//
// What the disk does not take in time is dropped and counted, and the next line that is written is
// preceded by one that says how many are missing. A disk that is full, and becomes free again,
// costs the lines of that time only. A line is in the file whole or not at all.
//
// A file that would grow beyond a size is renamed to PATH.1, the one before to PATH.2, and so on up
// to a number; the oldest is removed. Only a regular file, and only the one that is at the path:
// somebody else may have renamed it.
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
    int kept = 4;  // renamed ones beside the file itself
    // The line, without its newline, that stands for `dropped` others.
    std::function<std::string(std::size_t dropped)> missing;
    // One sentence when lines begin to be dropped, one when they no longer are, and one when the
    // file cannot be renamed. From the file's thread and from callers of Append; must not block or
    // call back.
    std::function<void(std::string_view text)> log;
  };

  explicit LineFile(Options options);
  // Writes what is queued, for at most `kCloseGrace`; a thread that hangs in a write is left
  // behind.
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  static constexpr std::chrono::milliseconds kCloseGrace{1000};

  // Makes the file (mode 0600) where there is none, and starts the thread. The error names the
  // path. Once, before the others.
  absl::Status Open();

  // Queues a line without its newline; at once.
  void Append(std::string line);

  // Opens the path anew before the next line: somebody else has renamed the file. At once. When it
  // cannot be opened, the old file goes on.
  void Reopen();

  std::size_t dropped() const;  // since the start

  // The name of the `age`-th renamed file; 1 is the newest.
  static std::string RenamedPath(const std::string& path, int age);

 private:
  struct State;
  // Has the thread write what is queued. With the state's mutex held.
  void Schedule();

  const std::shared_ptr<State> state_;  // shared with the thread
  TaskQueue tasks_{"ddprun-events"};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_LINE_FILE_H_
