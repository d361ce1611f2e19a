// Writes log files off the loop.
//
// One thread serves all files. Each file has a bounded queue: when Write() returns false, the
// caller stops reading its source until `on_room` is called. So a slow disk slows down only the
// worker that writes too much, because that worker's pipe fills.
//
// On a full disk a write is retried with doubling delays (0.1 to 5 s) until there is room.
// Meanwhile the queue fills up to its bound. Then, with kDrop, further bytes are dropped, and a
// note at that place in the file says how many are missing; with kWait, the worker waits. After
// Close(), a file is given up once its disk has been full for about 36 s.
//
// If a file cannot be opened or written for another reason (no permission), it is given up with one
// error. Its later bytes are dropped, and the job continues. Files can have a maximum size:
// log_file.h.
//
// The loop's thread makes the object and calls all functions; all callbacks run on that thread.
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
  // queue until the process ends. Call Flush() first to learn whether all was written.
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // Opens `path` for appending, on the writer's thread. Makes a missing file and its folders.
  // After Write() returned false, `on_room` is called when the file's queue has fallen to
  // kLowWater, or, with kDrop, when the disk is full. It is never called after Close().
  FileId Open(std::string path, std::function<void()> on_room);

  // Queues `bytes`, or drops them (kDrop on a full disk). False: the queue is over kHighWater, wait
  // for on_room.
  bool Write(FileId file, std::string_view bytes);

  // Writes the queue, then closes the file. The id becomes invalid.
  void Close(FileId file);

  // Blocks until all queues are written and all files given to Close() are closed, or until
  // `deadline`. On a full disk it tries once. False: some bytes are unwritten. For the end of the
  // job only, because it blocks the loop.
  bool Flush(std::chrono::steady_clock::time_point deadline);

  // Bytes dropped since the start, because of full disks and given-up files.
  std::uint64_t bytes_dropped() const;

  // The largest size of a single file's queue so far. For tests, which cannot see the bound in
  // another way.
  std::size_t PeakQueuedBytes() const;

 private:
  struct File;
  struct State;
  struct Callbacks;

  // Retries after a delay, on the loop.
  void RetryLater(FileId id, std::chrono::milliseconds delay);
  // Makes the thread write a file's queue. The caller holds the state's mutex.
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
