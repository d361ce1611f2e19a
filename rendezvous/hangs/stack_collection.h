// StackCollection: the progress of one request for the stacks of a job's ranks.
//
// Pure. Belongs to one generation. StackRequests sends the messages.
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

// At most `at_once` nodes are asked at a time; after `pause` the next ones. If all were asked at
// once, thousands of answers would arrive together: they would need gigabytes of memory and delay
// other jobs. Asking 16,384 nodes takes 3.3 s of the 5 s of stacks_timeout. No node is asked while
// `most_waiting` answers wait to be merged.
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
  // The collection ends at this time, with or without the missing answers.
  TimePoint deadline() const { return deadline_; }

  // The verdict on a hang needs this collection.
  void SetForVerdict() { for_verdict_ = true; }
  bool for_verdict() const { return for_verdict_; }
  // The operators' requests that this collection answers.
  void AddTicket(std::uint64_t ticket) { tickets_.push_back(ticket); }
  const std::vector<std::uint64_t>& tickets() const { return tickets_; }

  // Adds a node to ask, with the ranks of its workers.
  void Await(AgentId node, std::string host, RankRange ranks);
  // The nodes to ask at `now`. Each node is returned once.
  std::vector<AgentId> TakeToAsk(TimePoint now);
  // The next time at which work is due without an event: asking more nodes, or concluding.
  TimePoint NextDeadline() const;
  bool Awaits(AgentId node) const { return awaited_.contains(node.value); }
  bool complete() const { return awaited_.empty(); }

  // Call it when a node has answered; Awaits() must be true for that node. Returns the arguments of
  // Await().
  struct Asked {
    std::string host;
    RankRange ranks;
  };
  Asked Answered(AgentId node);
  // `answers` more answers are merged.
  void Merged(std::size_t answers) { waiting_ -= std::min(waiting_, answers); }
  // Stops waiting for this node: it will not answer.
  void GiveUp(AgentId node);
  // The answer of `host` cannot be used, and counts as missing.
  void Refuse(const std::string& host) { without_.push_back(host); }

  // No further answers are awaited; the findings are requested.
  void SetConcluding() { concluding_ = true; }
  bool concluding() const { return concluding_; }
  // The hosts without an answer, sorted.
  std::vector<std::string> Missing() const;

 private:
  StackRequestId request_;
  TimePoint deadline_;
  StackPace pace_;
  std::deque<AgentId> to_ask_;
  TimePoint ask_at_{};  // when to ask the next nodes
  bool for_verdict_ = false;
  std::vector<std::uint64_t> tickets_;
  std::unordered_map<std::uint64_t, Asked> awaited_;  // by AgentId
  std::vector<std::string> without_;                  // hosts given up or refused
  std::size_t waiting_ = 0;                           // answers not merged yet
  bool concluding_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_STACK_COLLECTION_H_
