#include "rendezvous/core/saved_state.h"

#include "absl/strings/str_cat.h"

namespace ddprun {

const char* ToString(Tier tier) {
  switch (tier) {
    case Tier::kMemory:
      return "memory";
    case Tier::kDurable:
      return "durable";
  }
  return "?";
}

std::string Describe(const RestorePlan& plan) {
  const std::string unseen =
      plan.unseen ? absl::StrCat("; but first its workers look for the checkpoint of step ",
                                 plan.unseen->state.step, " on node ", plan.unseen->host,
                                 ", whose disk cannot be read completely")
                  : "";
  if (!plan.state) {
    return absl::StrCat("starts at step 0: no node holds a state that is valid", unseen);
  }
  return absl::StrCat("resumes at step ", plan.state->step, " from rank ", plan.source.value, " (",
                      plan.state->tier == Tier::kMemory ? "memory" : "disk", " of node ", plan.host,
                      ")", unseen);
}

}  // namespace ddprun
