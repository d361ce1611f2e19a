#include "rendezvous/json/failed_checkpoints_json.h"

namespace ddprun {

using Json = nlohmann::ordered_json;

void AddTo(Json* json, const FailedCheckpoints& failed) {
  (*json)["failed_checkpoints"] = failed.count;
  Json& last = (*json)["last_failed_checkpoint"];
  if (failed.count == 0) return;
  last = {{"step", failed.last_step}, {"host", failed.last_host}, {"reason", failed.last_reason}};
}

}  // namespace ddprun
