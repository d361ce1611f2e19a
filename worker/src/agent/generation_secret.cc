#include "worker/src/agent/generation_secret.h"

#include <chrono>
#include <string>

#include "worker/contract/environment.h"
#include "worker/src/agent/launch_variables.h"

namespace ddp::internal {
namespace {

// The agent answers at once, unless its process is stopped.
constexpr std::chrono::seconds kPatience{30};

// Never destroyed, because threads may use it until the process ends.
std::string& Secret() {
  static std::string* const secret = new std::string;
  return *secret;
}

}  // namespace

const std::string& GenerationSecret() { return Secret(); }

void FetchGenerationSecret(ControlClient* agent) {
  const char* const how = LaunchVariable(ddprun::env::kPeerSecret);
  const bool has_one = how != nullptr && std::string(how) == ddprun::env::kAskForSecret;
  Secret() = has_one ? agent->AskForSecret(kPatience) : "";
}

}  // namespace ddp::internal
