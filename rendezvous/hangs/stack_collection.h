// StackCollection: one request for the stacks of a job's ranks, and what has come of it.
//
// Pure. Belongs to one generation; the JobMachine asks the nodes, and says when it is over.
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

// So many nodes are asked together, and the next ones after a pause. The answers of thousands of
// nodes at once would be gigabytes on one machine, and its other jobs would wait for them.
struct StackPace {
  std::size_t at_once = 64;
  Duration pause = std::chrono::milliseconds(10);
};

class StackCollection {
 public:
  StackCollection(StackRequestId request, TimePoint deadline, StackPace pace = {})
      : request_(request), deadline_(deadline), pace_(pace) {}

  StackRequestId request() const { return request_; }
  // Whoever has not answered by then is not waited for.
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
  // When there is something to do though nothing comes: to ask more of them, or to conclude.
  TimePoint NextDeadline() const;
  bool Awaits(AgentId node) const { return awaited_.contains(node.value); }
  bool complete() const { return awaited_.empty(); }

  // The answer of a node that is awaited. Error: it is not well formed, or tells of ranks of other
  // nodes; then it counts as none.
  absl::Status Take(AgentId node, const EncodedStackTree& tree);
  // It will not answer.
  void GiveUp(AgentId node);

  // Once nobody is waited for any more. What has come is in tree() then.
  void Conclude();
  const StackTree& tree() const { return tree_; }
  // The hosts without an answer, sorted.
  std::vector<std::string> Missing() const;

 private:
  struct Asked {
    std::string host;
    RankRange ranks;
  };

  // So many trees go into a small one first: the ranks of nodes that answer in any order are many
  // ranges, and to put one more between them costs the more the more there are.
  static constexpr int kMostRecent = 128;

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
