#include "worker/src/checkpoint/state_texts.h"

#include <ddp/errors.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ddp::internal {

using nlohmann::json;

State StateOf(const FoundState& found) {
  const Metadata& metadata = found.metadata;
  State state;
  state.step = std::stoll(metadata.at("step"));
  state.epoch = std::stoll(metadata.at("epoch"));
  state.batch = std::stoll(metadata.at("batch"));
  state.world_size = std::stoi(metadata.at("world_size"));
  state.user = json::parse(metadata.at("user")).get<std::map<std::string, std::string>>();
  state.path = found.path;
  return state;
}

void AddPlace(const State& state, int world_size, Metadata* metadata) {
  if (state.step < 0) throw CheckpointError("a step cannot be negative");
  (*metadata)["epoch"] = std::to_string(state.epoch);
  (*metadata)["batch"] = std::to_string(state.batch);
  (*metadata)["world_size"] = std::to_string(world_size);
  (*metadata)["user"] = json(state.user).dump();  // throws for what is not UTF-8
}

std::string WhyNotAnew(const std::optional<RestoreOrder>& order,
                       const std::vector<std::string>& rejected) {
  constexpr std::size_t kShown = 4;
  std::string text = order && !order->from_the_start
                         ? "the state of step " + std::to_string(order->step) +
                               ", with which all ranks were to begin, cannot be loaded, and no "
                               "older one either"
                         : "there are checkpoints, and none of them can be loaded";
  for (std::size_t i = 0; i < std::min(rejected.size(), kShown); ++i) text += "; " + rejected[i];
  if (rejected.size() > kShown) {
    text += "; and " + std::to_string(rejected.size() - kShown) + " more";
  }
  return text +
         ". Training does not begin at step 0 beside them: repair them or "
         "give another folder; or start with --start-anew, to begin at "
         "step 0. Nothing is deleted";
}

}  // namespace ddp::internal
