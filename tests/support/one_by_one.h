// Replaces each SendToMany of a JobMachine by one Send for each receiver. So a test can look for a
// message to one agent, and need not know which messages went to many agents.
#ifndef DDPRUN_TESTS_SUPPORT_ONE_BY_ONE_H_
#define DDPRUN_TESTS_SUPPORT_ONE_BY_ONE_H_

#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/machine/step/job_action.h"

namespace ddprun {

inline std::vector<job_action::Any> OneByOne(std::vector<job_action::Any> actions) {
  std::vector<job_action::Any> single;
  for (job_action::Any& action : actions) {
    const auto* const many = std::get_if<job_action::SendToMany>(&action);
    if (many == nullptr) {
      single.push_back(std::move(action));
      continue;
    }
    for (const AgentId to : many->to) {
      single.push_back(job_action::Send{many->HeaderOf(to), *many->message});
    }
  }
  return single;
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_ONE_BY_ONE_H_
