// Writes log files off the loop without loss.
//
// One thread serves all files. Each file has a bounded queue: when Write() returns false, the
// caller stops reading its source until it is called back. So a slow disk slows only the worker
// that floods it, through that worker's pipe.
//
// On a full disk a write is retried with doubling delays (0.1 to 5 s) until there is room.
// Meanwhile the queue fills up to its bound. Then further bytes are dropped, and a note in the file
// at that place says how many are missing (kDrop), or the worker waits (kWait). A closed file is
// retried for about 40 s more.
//
// A file that cannot be opened or written for another reason (no permission) is given up with one
// error. Its later bytes are dropped, and the job continues. Files may have a maximum size:
// log_file.h.
//
// The loop's thread makes it and calls all functions; all callbacks run there.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_WRITER_THREAD_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_WRITER_THREAD_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/output/written_files.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class WriterThread {
 public:
  using FileId = std::uint64_t;
  using ErrorHandler = std::function<void(const absl::Status&)>;

  // Per file, in bytes, including those being written.
  static constexpr std::size_t kHighWater = 4 << 20;
  static constexpr std::size_t kLowWater = 1 << 20;

  enum class WhenFull { kDrop, kWait };
  struct Options {
    WhenFull when_full = WhenFull::kDrop;
    std::uint64_t max_file_bytes = 0;         // 0: any size
    std::shared_ptr<WrittenFiles> written{};  // records all writes; null: none
  };

  // `loop` must outlive this object. `on_error` is called once for each file that is given up or
  // cannot be kept within its size, and when a disk becomes full or has room again. The message
  // names the file.
  WriterThread(EventLoop* loop, ErrorHandler on_error)
      : WriterThread(loop, std::move(on_error), Options()) {}
  WriterThread(EventLoop* loop, ErrorHandler on_error, Options options);

  // Waits up to two seconds for the queues. A thread that hangs in a write is left behind with its
  // queue until the process ends. Call Flush() before to learn of that.
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // Opens `path` for appending, on the writer's thread. Makes a missing file and its folders.
  // `on_room` is called each time the file's queue falls to kLowWater after Write() returned false,
  // and never after Close().
  FileId Open(std::string path, std::function<void()> on_room);

  // Queues `bytes`, or drops them (kDrop on a full disk). False: the queue is over kHighWater, wait
  // for on_room.
  bool Write(FileId file, std::string_view bytes);

  // Writes the queue, then closes the file. The id becomes invalid.
  void Close(FileId file);

  // Blocks until all queues are written and all closed files are closed, or until `deadline`. On a
  // full disk it tries once. False: something is unwritten. For the end of the job: it blocks the
  // loop.
  bool Flush(std::chrono::steady_clock::time_point deadline);

  // Bytes dropped since the start, because of full disks and given-up files.
  std::uint64_t bytes_dropped() const;

  // The largest size of any one file's queue so far. For tests: nothing else shows the bound.
  std::size_t PeakQueuedBytes() const;

 private:
  struct File;
  struct State;
  struct Callbacks;

  // Retries after a delay, on the loop.
  void RetryLater(FileId id, std::chrono::milliseconds delay);
  // Has the thread write a file's queue. The caller holds the state's mutex.
  void Schedule(FileId id, File* file);
  static void Serve(State* state, FileId id);
  static void WriteQueued(State* state, FileId id, File* file, std::unique_lock<std::mutex>* lock);

  // Shared with tasks posted to the loop, which may run after this object is gone.
  const std::uint64_t max_file_bytes_;
  const std::shared_ptr<Callbacks> callbacks_;
  const std::shared_ptr<State> state_;  // shared with the thread
  FileId next_file_ = 1;
  TaskQueue tasks_{"ddprun-logs"};
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_WRITER_THREAD_H_
