// Which nodes a job excludes (Quarantine) or admits later (LateAdmission). Pure: the time is an
// argument.
//
// A host is excluded in three cases: its workers were the root cause too often within the window;
// its ranks hung too often; under Slurm, its own check failed (--preflight, or --numa-binding
// is not possible).
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
  Duration age{};  // at the time of the record; the time until the record is read does not count
  bool operator==(const Blame&) const = default;
};

struct QuarantineRecord {
  std::vector<Blame> blames;       // oldest first; some may be older than the window
  std::vector<std::string> hosts;  // excluded, in this order
  std::vector<std::string> hangs;  // the host of each hang, oldest first
  bool operator==(const QuarantineRecord&) const = default;
};

class Quarantine {
 public:
  static constexpr std::size_t kMaxBlames = 1024;  // also hangs; the oldest are forgotten
  static constexpr std::size_t kMaxHosts = 64;     // further hosts are not excluded

  // `limit` 0: no node is excluded for its workers.
  Quarantine(int limit, Duration window) : limit_(limit), window_(window) {}
  Quarantine(int limit, Duration window, const QuarantineRecord& record, TimePoint now);

  // A worker on this host was the root cause. Returns true if this excludes the host.
  bool Count(const std::string& host, TimePoint now);

  // A rank on this host hung. All hangs of the job count, without a window. Does not exclude the
  // host: the caller decides, because it knows whether another node can take the host's place.
  void CountHang(const std::string& host);
  int HangsOf(const std::string& host) const;

  // Excludes this host. False: it is already excluded, or kMaxHosts hosts are.
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

// Delays nodes that were repeatedly lost soon after joining, for example because of a cgroup limit
// or a bad power supply. Each return of such a node costs all others a restart, and --max-restarts
// does not count these restarts. A node is identified by host name and address, not by its agent.
class LateAdmission {
 public:
  // "Soon": within this time of the Join, or of the first start of its workers after the Join.
  static constexpr Duration kSoon = std::chrono::seconds(60);
  // After the second such loss in a row a node waits for kFirstDelay. Each further loss doubles the
  // delay.
  static constexpr Duration kFirstDelay = std::chrono::seconds(1);
  static constexpr Duration kMaxDelay = std::chrono::seconds(60);
  // Beyond this number the node with the oldest loss is forgotten.
  static constexpr std::size_t kMaxLostNodes = 1024;

  // Call it when a node was lost, or left by itself. `stayed`: the time since its Join, or since
  // the first start of its workers after the Join.
  void OnLost(const NodeSpec& node, Duration stayed);

  struct Wait {
    Duration delay{};    // from its Join
    std::string reason;  // for people: "it was gone soon after joining, 3 times in a row"
  };
  // How long a node that joins has to wait; nullopt: not at all.
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

  std::deque<Losses> losses_;  // one entry per node; the newest loss is last
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_NODES_QUARANTINE_H_
