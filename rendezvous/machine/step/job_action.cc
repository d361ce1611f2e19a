#include "rendezvous/machine/step/job_action.h"

#include <utility>

namespace ddprun::job_action {

std::vector<Any> OneByOne(std::vector<Any> actions) {
  std::vector<Any> single;
  for (Any& action : actions) {
    const auto* const many = std::get_if<SendToMany>(&action);
    if (many == nullptr) {
      single.push_back(std::move(action));
      continue;
    }
    for (const AgentId to : many->to) {
      single.push_back(Send{many->HeaderOf(to), *many->message});
    }
  }
  return single;
}

}  // namespace ddprun::job_action
