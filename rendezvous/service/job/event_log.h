// EventLog: the history of the jobs. Every event is one line of JSON. The newest lines are in
// memory, for `ddprun events`. If there is a file, each line goes there, too (LineFile).
//
// Bounded: at most `max_lines` lines and `max_bytes` are in memory. A reader has no queue, only a
// place in the history. A reader that is too slow for the retained lines gets an error.
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
    std::size_t file_queue_bytes = 4 << 20;  // this and the next two: see LineFile
    std::size_t max_file_bytes = 64 << 20;
    int files_kept = 4;
    std::function<void(std::string_view)> log{};  // messages for people; must not block
    std::function<std::int64_t()> unix_ms{};      // empty: the system's clock
  };

  struct Line {
    std::int64_t unix_ms = 0;
    std::string job;
    std::string owner;  // of the job (docs/security.md); empty: no credentials
    std::string json;
  };

  // Selects the lines that a reader gets. `owner`: only jobs of this owner; empty: all jobs.
  struct Filter {
    std::string owner{};
    std::string job{};  // empty: all
    std::int64_t since_ms = 0;
  };

  explicit EventLog(Options options);

  // Opens the file. Reads the newest lines of this file and of the previous, renamed file into
  // memory, so that events from before a restart are available. Call it once, before all other
  // functions; not needed without a file. The error names the path.
  absl::Status Open();

  void Add(std::string_view job, std::string_view owner, std::uint32_t requeue_number,
           const JobEvent& event);

  // Call it after another process has renamed the file. Returns at once.
  void ReopenFile();
  std::size_t dropped_from_file() const;

  // A place in the history: before the oldest retained line, or after the newest.
  std::uint64_t Oldest() const;
  std::uint64_t End() const;

  // Sets `*line` to the first line at or after `*place` that passes the filter, and `*place` to the
  // place after that line. `*line` is nullptr if there is none yet. Errors: OutOfRange, the line at
  // `*place` is no longer retained; Unavailable, no more lines will come.
  absl::Status Next(const Filter& filter, std::uint64_t* place,
                    std::shared_ptr<const Line>* line) const;

  // `wake` is called after each Add and after Close, on the thread that called Add or Close, and
  // must return at once. It is not called after Unfollow has returned; `wake` itself must not call
  // Follow or Unfollow. Follow returns 0 and does nothing if there are kMaxFollowers.
  static constexpr std::size_t kMaxFollowers = 256;
  std::uint64_t Follow(std::function<void()> wake);
  void Unfollow(std::uint64_t follower);

  // Call it when no more lines will come. Readers then get Unavailable at the end of the history.
  void Close();

 private:
  void Retain(Line line);  // with mutex_ held
  // Reads the newest lines of a file into memory, up to the bounds.
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

  std::mutex followers_mutex_;  // held while followers are woken
  std::uint64_t next_follower_ = 1;
  std::map<std::uint64_t, std::function<void()>> followers_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_EVENT_LOG_H_
