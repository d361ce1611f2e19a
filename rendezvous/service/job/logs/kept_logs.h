// KeptLogs: copies of the last parts of failed workers' log files. They can be read after the job
// is over and its agents are gone.
//
// A value that belongs to a ServedJob. Used only from within JobLoop, by one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_KEPT_LOGS_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_KEPT_LOGS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class KeptLogs {
 public:
  static constexpr std::size_t kMaxBytes = 64 << 10;  // of each file
  static constexpr std::size_t kMaxRanks = 16;        // the root cause, and the first victims

  // A generation has ended because of `cause`: discards the logs of earlier generations. Returns
  // the ranks whose files are to be kept.
  const std::vector<Rank>& Begin(const RootCause& cause);
  // Appends text of a file.
  void Add(const LogSource& source, std::string_view text);

  std::optional<Generation> generation() const { return generation_; }
  // The root cause first, if it is a worker.
  const std::vector<Rank>& ranks() const { return ranks_; }
  // The last part of a file, at most `span.lines` lines. The times of lines are not known, so
  // `span.since` has no effect.
  struct Part {
    std::string_view text;
    bool whole = false;  // true: it is all that was asked for
  };
  // nullopt: nothing of this file is kept.
  std::optional<Part> Find(const LogSource& source, const LogSpan& span) const;
  bool empty() const { return texts_.empty(); }
  std::size_t bytes() const { return bytes_; }
  void Clear() { *this = KeptLogs(); }

 private:
  std::optional<Generation> generation_;
  std::vector<Rank> ranks_;
  std::map<LogSource, std::string> texts_;
  std::size_t bytes_ = 0;  // of texts_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_KEPT_LOGS_H_
