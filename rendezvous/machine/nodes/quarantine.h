// Which nodes a job does without, for good or for a while.
//
// Quarantine: which nodes are left out of a job: those where a worker was the root cause so many
// times within the window, those whose ranks hung so many times, and those that said that they are
// not fit. Pure: time comes in as an argument.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_NODES_QUARANTINE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_NODES_QUARANTINE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"
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
  std::vector<std::string> hangs;  // the host of each hang, oldest first
  bool operator==(const QuarantineRecord&) const = default;
};

class Quarantine {
 public:
  // More than these are not remembered, the oldest first, or not left out.
  static constexpr std::size_t kMaxBlames = 1024;  // and hangs
  static constexpr std::size_t kMaxHosts = 64;

  // `limit` 0: no node is ever left out for its workers.
  Quarantine(int limit, Duration window) : limit_(limit), window_(window) {}
  Quarantine(int limit, Duration window, const QuarantineRecord& record, TimePoint now);

  // A worker on this host was the root cause. Returns whether the host is left out from now on.
  bool Count(const std::string& host, TimePoint now);

  // A rank on this host hung. Hangs count however long ago they were. Leaves nobody out: that is
  // the caller's, who knows whether another node can take its place.
  void CountHang(const std::string& host);
  int HangsOf(const std::string& host) const;

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
  std::deque<std::string> hangs_;  // oldest first
};

// Which nodes are admitted later: those that are gone soon after they have joined, again and again
// (their cgroup kills them at each start, their power is bad, something ends their agent). Each of
// them costs all others a restart whenever it comes back, also where it is gone before the group
// forms with it, and no budget counts these. A node is its host name together with
// its address, whichever agent runs there.
class LateAdmission {
 public:
  // A loss within this time of joining, or of the first start of its workers after that, is one
  // soon after joining.
  static constexpr Duration kSoon = std::chrono::seconds(60);
  // After the second such loss in a row a node waits kFirstDelay, and with each more twice as long.
  static constexpr Duration kFirstDelay = std::chrono::seconds(1);
  static constexpr Duration kMaxDelay = std::chrono::seconds(60);
  // Of more lost nodes than these, the one that was lost longest ago is forgotten.
  static constexpr std::size_t kMaxLostNodes = 1024;

  // This node was lost or left by itself, so long after it had joined.
  void OnLost(const NodeSpec& node, Duration stayed);

  struct Wait {
    Duration delay{};    // from its Join
    std::string reason;  // for people: "it was gone soon after joining, 3 times in a row"
  };
  // For a node that joins; nullopt: it may be in a generation at once.
  std::optional<Wait> WaitOf(const NodeSpec& node) const;

 private:
  struct Losses {
    std::string host;
    std::string address;
    int in_a_row = 0;
  };
  static bool IsOf(const Losses& losses, const NodeSpec& node) {
    return losses.host == node.host && losses.address == node.address;
  }

  std::deque<Losses> losses_;  // each node once, the one that was lost last is the last
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_NODES_QUARANTINE_H_
