#include "rendezvous/json/restore_json.h"

namespace ddprun {

using Json = nlohmann::ordered_json;

Json ToJson(const SavedState& state) {
  Json json = {{"step", state.step}, {"epoch", state.requeue_number}};
  json["generation"] = state.generation.value < 0 ? Json(nullptr) : Json(state.generation.value);
  json["tier"] = ToString(state.tier);
  return json;
}

Json ToJson(const RestorePlan& plan) {
  if (!plan.state) return {{"step", 0}, {"tier", "none"}};
  Json json = ToJson(*plan.state);
  json["rank"] = plan.source.value;
  json["host"] = plan.host;
  return json;
}

}  // namespace ddprun
