#include "rendezvous/json/restart_times_json.h"

namespace ddprun {
namespace {

double Milliseconds(std::int64_t microseconds) { return static_cast<double>(microseconds) / 1000; }

}  // namespace

nlohmann::ordered_json ToJson(const RestartTimes& times) {
  nlohmann::ordered_json json = {{"generation", times.generation.value},
                                 {"warm_workers", times.warm_workers},
                                 {"to_first_step", times.to_first_step},
                                 {"total_ms", Milliseconds(times.total_microseconds())},
                                 {"phases_ms", nlohmann::ordered_json::object()}};
  for (const PhaseTime& phase : times.phases) {
    json["phases_ms"][phase.name] = Milliseconds(phase.microseconds);
  }
  return json;
}

}  // namespace ddprun
