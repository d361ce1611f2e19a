// StackCollection: one request for the stacks of a job's ranks, and who has answered.
//
// Pure. Belongs to one generation; the JobMachine asks the nodes, and concludes it.
#ifndef DDPRUN_RENDEZVOUS_HANGS_STACK_COLLECTION_H_
#define DDPRUN_RENDEZVOUS_HANGS_STACK_COLLECTION_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/core/types.h"
#include "rendezvous/stacks/rank_set.h"

namespace ddprun {

// At most `at_once` nodes are asked together, the next ones after `pause`. Thousands of answers at
// once would be gigabytes on one machine, and would delay its other jobs: what comes together is
// read one after the other. 16,384 nodes are asked within 3.3 s of the 5 s. Nor are more asked
// while so many answers wait to be merged.
struct StackPace {
  std::size_t at_once = 8;
  Duration pause = std::chrono::microseconds(1600);
  std::size_t most_waiting = 256;
};

class StackCollection {
 public:
  StackCollection(StackRequestId request, TimePoint deadline, StackPace pace = {})
      : request_(request), deadline_(deadline), pace_(pace) {}

  StackRequestId request() const { return request_; }
  // Nodes that have not answered by then are not waited for.
  TimePoint deadline() const { return deadline_; }

  // A verdict on a hang waits for it.
  void SetForVerdict() { for_verdict_ = true; }
  bool for_verdict() const { return for_verdict_; }
  // Operators who wait for it.
  void AddTicket(std::uint64_t ticket) { tickets_.push_back(ticket); }
  const std::vector<std::uint64_t>& tickets() const { return tickets_; }

  // This node is to be asked; `ranks` are its own.
  void Await(AgentId node, std::string host, RankRange ranks);
  // The nodes whose turn it is to be asked at `now`; each comes once.
  std::vector<AgentId> TakeToAsk(TimePoint now);
  // The next time to act without an event: to ask more nodes, or to conclude.
  TimePoint NextDeadline() const;
  bool Awaits(AgentId node) const { return awaited_.contains(node.value); }
  bool complete() const { return awaited_.empty(); }

  // A node for which Awaits() is true has answered. Returns its host and its ranks.
  struct Asked {
    std::string host;
    RankRange ranks;
  };
  Asked Answered(AgentId node);
  // So many answers are merged.
  void Merged(std::size_t answers) { waiting_ -= std::min(waiting_, answers); }
  // The node will not answer.
  void GiveUp(AgentId node);
  // What it has sent is not used.
  void Refuse(const std::string& host) { without_.push_back(host); }

  // Nobody is waited for any more, and the findings are asked for.
  void SetConcluding() { concluding_ = true; }
  bool concluding() const { return concluding_; }
  // The hosts without an answer, sorted.
  std::vector<std::string> Missing() const;

 private:
  StackRequestId request_;
  TimePoint deadline_;
  StackPace pace_;
  std::deque<AgentId> to_ask_;
  TimePoint ask_at_{};  // the next ones
  bool for_verdict_ = false;
  std::vector<std::uint64_t> tickets_;
  std::unordered_map<std::uint64_t, Asked> awaited_;  // by AgentId
  std::vector<std::string> without_;                  // hosts that are given up or refused
  std::size_t waiting_ = 0;                           // answers that are to be merged
  bool concluding_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_STACK_COLLECTION_H_
