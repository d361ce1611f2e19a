#include "worker/src/checkpoint/state_texts.h"

#include <ddp/errors.h>

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
  try {
    (*metadata)["user"] = json(state.user).dump();
  } catch (const json::exception&) {
    throw CheckpointError("State::user has text that is not UTF-8");
  }
}

}  // namespace ddp::internal
