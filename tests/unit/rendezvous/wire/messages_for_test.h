// Valid messages, for tests to send or to damage.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_MESSAGES_FOR_TEST_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_MESSAGES_FOR_TEST_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "rendezvous/core/messages.h"

namespace ddprun {

inline Header HeaderOf(const std::string& job, std::uint64_t agent_id, int generation = 0) {
  return {job, 0, Generation{generation}, AgentId{agent_id}};
}

// A Join to a job of exactly `nodes` nodes, so that the job does not wait for a last call.
inline Join JoinOf(const std::string& host, int nodes, int workers = 1) {
  Join join;
  join.job.min_nodes = nodes;
  join.job.max_nodes = nodes;
  join.job.join_timeout = std::chrono::seconds(60);
  join.job.last_call = std::chrono::seconds(30);
  join.node = {host, host + ".example", workers};
  join.offered_port = 29500;
  return join;
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_MESSAGES_FOR_TEST_H_
