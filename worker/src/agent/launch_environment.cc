#include "worker/src/agent/launch_environment.h"

#include <ddp/errors.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "worker/contract/environment.h"
#include "worker/contract/limits.h"

namespace ddp::internal {
namespace {

namespace env = ddprun::env;

std::string Assignment(const char* name, std::string_view value) {
  return std::string(name) + "=" + std::string(value);
}

// The number in variable `name`; `fallback` if it is not set. Throws if it is not in [low, high].
int Number(const Getenv& getenv, const char* name, int low, int high, int fallback) {
  const char* const text = getenv(name);
  if (text == nullptr) return fallback;
  const char* const last = text + std::strlen(text);
  int value = 0;
  const auto [end, error] = std::from_chars(text, last, value);
  if (error != std::errc() || end != last || value < low || value > high) {
    const std::string range = high == std::numeric_limits<int>::max()
                                  ? "of at least " + std::to_string(low)
                                  : std::to_string(low) + ".." + std::to_string(high);
    throw ConfigError("the environment has " + Assignment(name, text) +
                      ", but expected is a whole number " + range);
  }
  return value;
}

// Throws unless `value` < `limit`. The names are for the error's text.
void CheckBelow(const char* name, int value, const char* limit_name, int limit) {
  if (value < limit) return;
  throw ConfigError(
      "the environment contradicts itself: " + Assignment(name, std::to_string(value)) +
      " must be less than " + Assignment(limit_name, std::to_string(limit)));
}

void CheckPresent(const Getenv& getenv, const std::vector<const char*>& names) {
  std::string missing;
  for (const char* name : names) {
    if (const char* const value = getenv(name); value != nullptr && *value != '\0') continue;
    if (!missing.empty()) missing += ", ";
    missing += name;
  }
  if (missing.empty()) return;
  throw ConfigError(
      "not in the environment: " + missing +
      ". A launcher (ddprun, torchrun) sets all of RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
      "MASTER_PORT; to run a single process without one, unset RANK and WORLD_SIZE");
}

// After how long ddprun reports a hang. 0: ddprun does not look for hangs.
std::chrono::milliseconds HangLimit(const Getenv& getenv) {
  constexpr int kMost = std::numeric_limits<int>::max();  // 24 days
  return std::chrono::milliseconds(Number(getenv, env::kHangLimit, 0, kMost, 0));
}

}  // namespace

LaunchEnvironment ReadLaunchEnvironment(const Getenv& getenv) {
  constexpr int kMax = std::numeric_limits<int>::max();
  LaunchEnvironment result;
  result.generation = Number(getenv, env::kGeneration, 0, kMax, 0);
  result.restart_count = Number(getenv, env::kRestartCount, 0, kMax, 0);
  if (getenv(env::kRank) == nullptr && getenv(env::kWorldSize) == nullptr) return result;

  std::vector<const char*> needed = {env::kRank, env::kWorldSize};
  const char* const size = getenv(env::kWorldSize);
  if (size == nullptr || std::string_view(size) != "1") {
    needed.insert(needed.end(), {env::kLocalRank, env::kMasterAddr, env::kMasterPort});
  }
  CheckPresent(getenv, needed);
  result.rank = Number(getenv, env::kRank, 0, kMax, 0);
  result.world_size = Number(getenv, env::kWorldSize, 1, kMax, 1);
  result.local_rank = Number(getenv, env::kLocalRank, 0, kMax, 0);
  result.local_world_size = Number(getenv, env::kLocalWorldSize, 1, kMax, 1);
  CheckBelow(env::kRank, result.rank, env::kWorldSize, result.world_size);
  CheckBelow(env::kLocalRank, result.local_rank, env::kWorldSize, result.world_size);
  if (getenv(env::kLocalWorldSize) != nullptr) {
    CheckBelow(env::kLocalRank, result.local_rank, env::kLocalWorldSize, result.local_world_size);
    if (result.local_world_size > result.world_size) {
      throw ConfigError("the environment contradicts itself: " +
                        Assignment(env::kLocalWorldSize, std::to_string(result.local_world_size)) +
                        " is more than " +
                        Assignment(env::kWorldSize, std::to_string(result.world_size)));
    }
  }

  if (const char* const address = getenv(env::kMasterAddr)) result.master_addr = address;
  result.master_port =
      static_cast<std::uint16_t>(Number(getenv, env::kMasterPort, 1, ddprun::kMaxPort, 0));
  if (const char* const agent_store = getenv(env::kUseAgentStore)) {
    result.agent_hosts_store = std::string_view(agent_store) == "True";
  }
  return result;
}

std::chrono::milliseconds DefaultTimeout(const Getenv& getenv) {
  return std::max<std::chrono::milliseconds>(std::chrono::minutes(30), 2 * HangLimit(getenv));
}

std::chrono::seconds WatchdogTimeout(const Getenv& getenv) {
  constexpr std::chrono::seconds kOfLibtorch{480};
  const auto limit = std::chrono::ceil<std::chrono::seconds>(HangLimit(getenv));
  return std::max<std::chrono::seconds>(kOfLibtorch, limit + std::chrono::minutes(1));
}

std::chrono::milliseconds ConnectTimeout(std::optional<std::chrono::milliseconds> given) {
  return given.value_or(std::chrono::minutes(5));
}

std::chrono::milliseconds JoinTimeout(std::optional<std::chrono::milliseconds> given,
                                      const Getenv& getenv) {
  if (given) return *given;
  return std::max<std::chrono::milliseconds>(ConnectTimeout(given),
                                             HangLimit(getenv) + std::chrono::minutes(1));
}

}  // namespace ddp::internal
