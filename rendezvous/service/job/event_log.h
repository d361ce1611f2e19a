// The history of the jobs: every event as one line of JSON, the newest of them in memory for
// `ddprun events`, all of them in a file if there is one.
//
// Bounded: at most `max_lines` lines and `max_bytes` are in memory, whoever reads them. A follower
// has a place in the history and no queue; one that is so slow that its place is forgotten is told.
//
// Thread-safe. Add never waits for a disk or a reader.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_EVENT_LOG_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rendezvous/core/job_event.h"
#include "rendezvous/service/job/line_file.h"

namespace ddprun {

class EventLog {
 public:
  struct Options {
    std::size_t max_lines = 10'000;
    std::size_t max_bytes = 8 << 20;
    std::string file{};                      // empty: none
    std::size_t file_queue_bytes = 4 << 20;  // see LineFile, as for the next two
    std::size_t max_file_bytes = 64 << 20;
    int files_kept = 4;
    std::function<void(std::string_view)> log{};  // what people should know; must not block
    std::function<std::int64_t()> unix_ms{};      // empty: the system's clock
  };

  struct Line {
    std::int64_t unix_ms = 0;
    std::string job;
    std::string owner;
    std::string json;
  };

  // Which lines a reader gets. Those of his jobs: `owner` empty means all.
  struct Filter {
    std::string owner{};
    std::string job{};  // empty: all
    std::int64_t since_ms = 0;
  };

  explicit EventLog(Options options);

  // Opens the file, and takes the newest lines of it and of the one renamed before it into memory:
  // what happened before a restart is still told. Once, before anything else; not needed without a
  // file. The error names the path.
  absl::Status Open();

  void Add(std::string_view job, std::string_view owner, std::uint32_t requeue_number,
           const JobEvent& event);

  // After somebody else has renamed the file. Returns at once.
  void ReopenFile();
  std::size_t dropped_from_file() const;

  // A place in the history: before the oldest line that is kept, or after the newest.
  std::uint64_t Oldest() const;
  std::uint64_t End() const;

  // The first line at or after `*place` that passes, and `*place` is after it then. nullptr: none
  // yet. Errors: OutOfRange, the line at `*place` is forgotten; Unavailable, no more will come.
  absl::Status Next(const Filter& filter, std::uint64_t* place,
                    std::shared_ptr<const Line>* line) const;

  // `wake` is called after each Add and after Close, by their threads, and must return at once. Not
  // any more once Unfollow has returned; `wake` itself must not call these two. Returns 0, and
  // takes nothing, when there are kMaxFollowers.
  static constexpr std::size_t kMaxFollowers = 256;
  std::uint64_t Follow(std::function<void()> wake);
  void Unfollow(std::uint64_t follower);

  // No line will come any more: readers who have them all are told so.
  void Close();

 private:
  void Retain(Line line);  // with mutex_ held
  // Takes the newest lines of a file into memory, as many as may be there.
  void Load(const std::string& path);
  void WakeAll();

  const Options options_;
  std::unique_ptr<LineFile> file_;  // set by Open

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<const Line>> lines_;
  std::uint64_t first_ = 0;  // the place of lines_.front()
  std::size_t bytes_ = 0;    // of lines_
  bool closed_ = false;

  std::mutex followers_mutex_;  // held while they are woken
  std::uint64_t next_follower_ = 1;
  std::map<std::uint64_t, std::function<void()>> followers_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_EVENT_LOG_H_
