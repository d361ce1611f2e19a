// StackCollection: one request for the stacks of a job's ranks, and the merged answers.
//
// Pure. Belongs to one generation; the JobMachine asks the nodes, and concludes it.
#ifndef DDPRUN_RENDEZVOUS_HANGS_STACK_COLLECTION_H_
#define DDPRUN_RENDEZVOUS_HANGS_STACK_COLLECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/core/types.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// At most `at_once` nodes are asked together, the next ones after `pause`. Thousands of answers at
// once would be gigabytes on one machine, and would delay its other jobs.
struct StackPace {
  std::size_t at_once = 64;
  Duration pause = std::chrono::milliseconds(10);
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

  // The answer of a node for which Awaits() is true. Error: it is malformed, or has ranks of other
  // nodes; then the node counts as given up.
  absl::Status Take(AgentId node, const EncodedStackTree& tree);
  // The node will not answer.
  void GiveUp(AgentId node);

  // Once no node is waited for any more. Then tree() has all answers.
  void Conclude();
  const StackTree& tree() const { return tree_; }
  // The hosts without an answer, sorted.
  std::vector<std::string> Missing() const;

 private:
  struct Asked {
    std::string host;
    RankRange ranks;
  };

  // Trees are merged in batches of this many. Nodes answer in any order, so their ranks are many
  // ranges, and inserting a range takes time linear in the number of ranges.
  static constexpr int kBatch = 128;

  void MergeRecent();
  // Keeps the memory bounded, however much the nodes send.
  void Compact();

  StackRequestId request_;
  TimePoint deadline_;
  StackPace pace_;
  std::deque<AgentId> to_ask_;
  TimePoint ask_at_{};  // the next ones
  bool for_verdict_ = false;
  std::vector<std::uint64_t> tickets_;
  std::unordered_map<std::uint64_t, Asked> awaited_;  // by AgentId
  std::vector<std::string> given_up_;
  StackTree tree_;
  StackTree recent_;  // not in tree_ yet
  int recent_trees_ = 0;
  std::size_t bytes_ = 0;  // of tree_ and recent_, at most
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_STACK_COLLECTION_H_
