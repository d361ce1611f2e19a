// Writes log files off the loop, and loses nothing.
//
// One thread serves all files. Each has a queue of its own with a bound: when Write() says that a
// file is over it, the caller stops reading what it copies until it is called back. So a slow disk
// slows the worker that floods it, through the worker's own pipe, and nobody else.
//
// Where the disk is full a file is tried again, each time twice as long after (0.1 to 5 s), until
// there is room. Meanwhile what comes for it is kept up to the bound; then it is thrown away
// (kDrop), and the file says at that place how many bytes are missing, or it waits with who writes
// it (kWait). A file that was closed is tried for about 40 s more.
//
// A file that cannot be opened or written for another reason (no permission) is given up with one
// error; what comes for it later is thrown away, and the job goes on. Files may have a greatest
// size: log_file.h.
//
// One thread, the loop's, makes it and calls everything; all callbacks run there.
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

  // Per file, in bytes, counting what is being written.
  static constexpr std::size_t kHighWater = 4 << 20;
  static constexpr std::size_t kLowWater = 1 << 20;

  enum class WhenFull { kDrop, kWait };
  struct Options {
    WhenFull when_full = WhenFull::kDrop;
    std::uint64_t max_file_bytes = 0;         // 0: any size
    std::shared_ptr<WrittenFiles> written{};  // hears of all that is written; null: nobody does
  };

  // `loop` must outlive this object. `on_error` is called once for each file that is given up or
  // cannot be kept at its size, and when a disk begins to be full and has room again; the message
  // names the file.
  WriterThread(EventLoop* loop, ErrorHandler on_error)
      : WriterThread(loop, std::move(on_error), Options()) {}
  WriterThread(EventLoop* loop, ErrorHandler on_error, Options options);

  // Waits up to two seconds for what is queued. A thread that hangs in a write is left behind with
  // its queue, to end with the process: call Flush() before to know.
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // Opens `path` for appending, on the writer's thread, with its folders; makes it if need be.
  // `on_room` is called each time the file's queue falls to kLowWater after Write() returned
  // false, and never after Close().
  FileId Open(std::string path, std::function<void()> on_room);

  // Queues `bytes`, but where the disk is full and they are to be dropped. False: the queue is over
  // kHighWater, wait for on_room.
  bool Write(FileId file, std::string_view bytes);

  // Writes what is queued, then closes the file. The id is not valid any more.
  void Close(FileId file);

  // Blocks until everything is written (and every closed file closed), or until `deadline`; on a
  // full disk it tries once. Returns whether it is. For the end of the job: the loop does not turn
  // meanwhile.
  bool Flush(std::chrono::steady_clock::time_point deadline);

  // That the files lack, since the start: full disks, and files that were given up.
  std::uint64_t bytes_dropped() const;

  // The most that any one file's queue has held so far. For tests: nothing else shows that it is
  // bounded.
  std::size_t PeakQueuedBytes() const;

 private:
  struct File;
  struct State;
  struct Callbacks;

  // After a delay, on the loop.
  void RetryLater(FileId id, std::chrono::milliseconds delay);
  // Has the thread write what is queued for a file. With the state's mutex held.
  void Schedule(FileId id, File* file);
  static void Serve(State* state, FileId id);
  static void WriteQueued(State* state, FileId id, File* file, std::unique_lock<std::mutex>* lock);

  // Tasks posted to the loop look for the callbacks, and may run after this object is gone.
  const std::uint64_t max_file_bytes_;
  const std::shared_ptr<Callbacks> callbacks_;
  const std::shared_ptr<State> state_;  // shared with the thread
  FileId next_file_ = 1;
  TaskQueue tasks_{"ddprun-logs"};
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_WRITER_THREAD_H_
