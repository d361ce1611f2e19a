// WrittenFiles: the record of the WriterThread's writes to log files. It tells readers which files
// are still open, whether a file has more bytes, and how much was written since a given time.
//
// Thread-safe. The readers share it with the WriterThread, whose thread may be left behind.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_WRITTEN_FILES_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_WRITTEN_FILES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// How many bytes were written by each time. Times are rounded to save memory: the error is at most
// a second, or an eighth of the age if this is more. Pure.
class WriteTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMaxMarks = 160;  // enough for many years

  void Wrote(std::size_t bytes, Time now);
  std::uint64_t total() const { return total_; }
  // Bytes written at `since` or later; rounded up if not known exactly.
  std::uint64_t WrittenSince(Time since) const;

 private:
  struct Mark {
    Time time;                 // of the first write
    Time last;                 // of the last write
    std::uint64_t before = 0;  // total bytes before `time`
  };
  void Thin(Time now);

  std::vector<Mark> marks_;  // the oldest first
  std::uint64_t total_ = 0;
};

class WrittenFiles {
 public:
  using Time = WriteTimes::Time;
  static constexpr std::size_t kMaxClosed = 1024;  // closed files whose times are remembered

  // Called by the WriterThread.
  void Opened(const std::string& path);
  void Wrote(const std::string& path, std::size_t bytes, Time now);
  void Closed(const std::string& path);

  struct State {
    bool open = false;  // more may be written
    std::uint64_t total = 0;
    bool operator==(const State&) const = default;
  };
  State Look(const std::string& path) const;
  // nullopt: the file is unknown.
  std::optional<std::uint64_t> WrittenSince(const std::string& path, Time since) const;

  // Calls `changed` once, when the state of the file differs from `seen`. The call comes on the
  // thread that changes the state, so `changed` must not block, and must not call this object.
  // False: the state already differs, and `changed` is not called. The file need not be open yet.
  bool Await(const std::string& path, const State& seen, std::function<void()> changed);
  // Calls all waiting callbacks, and forgets files that were never opened.
  void WakeAll();
  // Makes no more calls.
  void Silence();

 private:
  struct File {
    bool known = false;  // it was opened; false: only awaited
    bool open = false;
    WriteTimes times;
    std::vector<std::function<void()>> waiting;
  };
  static void Wake(File& file);
  State StateOf(const std::string& path) const;  // with mutex_ held

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::string, File> files_;
  std::deque<std::string> closed_;  // the oldest first
  bool silent_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_WRITTEN_FILES_H_
