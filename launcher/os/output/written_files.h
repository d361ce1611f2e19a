// WrittenFiles: what the WriterThread has written to log files. Readers of these files ask it which
// ones are still open, that there is more, and how much was written since a time.
//
// Thread-safe. Shared by the WriterThread, whose thread may be left behind, and the readers.
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

// How much was written by when. To save memory times are rounded: a time is known to a second or
// to an eighth of how long ago it is, whichever is more. Pure.
class WriteTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMaxMarks = 160;  // enough for many years

  void Wrote(std::size_t bytes, Time now);
  std::uint64_t total() const { return total_; }
  // How many bytes were written at `since` or later; some more where that is not known exactly.
  std::uint64_t WrittenSince(Time since) const;

 private:
  struct Mark {
    Time time;                 // what was written from here on
    Time last;                 // until here
    std::uint64_t before = 0;  // and what had been written before
  };
  void Thin(Time now);

  std::vector<Mark> marks_;  // the oldest first
  std::uint64_t total_ = 0;
};

class WrittenFiles {
 public:
  using Time = WriteTimes::Time;
  static constexpr std::size_t kMaxClosed = 1024;  // whose times are remembered

  // The WriterThread's.
  void Opened(const std::string& path);
  void Wrote(const std::string& path, std::size_t bytes, Time now);
  void Closed(const std::string& path);

  struct State {
    bool open = false;  // more may be written
    std::uint64_t total = 0;
    bool operator==(const State&) const = default;
  };
  State Look(const std::string& path) const;
  // nullopt: nothing is known of the file.
  std::optional<std::uint64_t> WrittenSince(const std::string& path, Time since) const;

  // Calls `changed` once, when the file is not any more as it was `seen`: by whatever thread
  // changes it, which must not be held up, and nothing here may be called from there. False, and it
  // is not called, where that is so already. A file may be waited for before it is opened.
  bool Await(const std::string& path, const State& seen, std::function<void()> changed);
  // Calls everything that waits, and forgets files that were never opened.
  void WakeAll();
  // Calls nobody any more.
  void Silence();

 private:
  struct File {
    bool known = false;  // it was opened; else it is only waited for
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
