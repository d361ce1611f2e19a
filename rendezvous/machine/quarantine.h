// Which nodes are left out of a job: those where a worker was the root cause so many times within
// the window, and those that said that they are not fit. Pure: time comes in as an argument.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_QUARANTINE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_QUARANTINE_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

struct Blame {
  std::string host;
  Duration age{};  // when the record was made; time that passes until it is read is not counted
  bool operator==(const Blame&) const = default;
};

struct QuarantineRecord {
  std::vector<Blame> blames;       // that the window still held, oldest first
  std::vector<std::string> hosts;  // that are left out, in the order in which they were
  bool operator==(const QuarantineRecord&) const = default;
};

class Quarantine {
 public:
  // More than these are not remembered, the oldest first, or not left out.
  static constexpr std::size_t kMaxBlames = 1024;
  static constexpr std::size_t kMaxHosts = 64;

  // `limit` 0: no node is ever left out for its workers.
  Quarantine(int limit, Duration window) : limit_(limit), window_(window) {}
  Quarantine(int limit, Duration window, const QuarantineRecord& record, TimePoint now);

  // A worker on this host was the root cause. Returns whether the host is left out from now on.
  bool Count(const std::string& host, TimePoint now);

  // Leaves this host out from now on. Returns whether that is new.
  bool Exclude(const std::string& host);

  bool Excludes(const std::string& host) const;
  const std::vector<std::string>& hosts() const { return hosts_; }
  QuarantineRecord Record(TimePoint now) const;

 private:
  struct Dated {
    std::string host;
    TimePoint at;
  };

  int limit_;
  Duration window_;
  std::deque<Dated> blames_;  // oldest first
  std::vector<std::string> hosts_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_QUARANTINE_H_
