#include "worker/src/storage/restore_order.h"

#include <ddp/errors.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "worker/contract/checkpoint_file.h"
#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/contract/limits.h"

namespace ddp::internal {
namespace {

namespace env = ddprun::env;
namespace checkpoint_file = ddprun::checkpoint_file;

std::int64_t Number(const Getenv& getenv, const char* name, std::int64_t end) {
  const char* const text = getenv(name);
  const auto number = ddprun::control::ParseNumber(text == nullptr ? "" : text);
  if (number && *number < end) return *number;
  throw ConfigError("the environment has " + std::string(name) + "=" +
                    (text == nullptr ? "" : text) + ", but expected is a whole number of 0 to " +
                    std::to_string(end - 1));
}

// -1: not set, or -1.
std::int64_t MakerNumber(const Getenv& getenv, const char* name) {
  const char* const text = getenv(name);
  if (text == nullptr || std::string_view(text) == "-1") return -1;
  return Number(getenv, name, std::numeric_limits<std::int64_t>::max());
}

std::int64_t NumberIn(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return -1;
  return ddprun::control::ParseNumber(found->second).value_or(-1);
}

}  // namespace

bool RestoreOrder::Allows(const Getenv& getenv, const Metadata& metadata) const {
  if (IsFromBefore(getenv, metadata)) return false;
  if (generation < 0) return true;
  const char* const job = getenv(env::kRunId);
  const auto made_by = metadata.find(checkpoint_file::kJob);
  std::pair<std::int64_t, std::int64_t> maker = {-1, -1};
  if (job != nullptr && made_by != metadata.end() && made_by->second == job) {
    maker = {NumberIn(metadata, checkpoint_file::kEpoch),
             NumberIn(metadata, checkpoint_file::kGeneration)};
  }
  const std::pair<std::int64_t, std::int64_t> ordered = {requeue_number, generation};
  return NumberIn(metadata, "step") == step ? maker == ordered : maker <= ordered;
}

std::optional<RestoreOrder> ReadRestoreOrder(const Getenv& getenv, int world_size) {
  const char* const tier = getenv(env::kRestoreTier);
  if (tier == nullptr) return std::nullopt;
  RestoreOrder order;
  order.from_the_start = std::string_view(tier) == env::kTierNone;
  if (order.from_the_start) return order;
  order.in_memory = std::string_view(tier) == env::kTierMemory;
  if (!order.in_memory && std::string_view(tier) != env::kTierDurable) {
    throw ConfigError("the environment has " + std::string(env::kRestoreTier) + "=" + tier +
                      ", but expected is memory, durable or none");
  }
  order.step = Number(getenv, env::kRestoreStep, std::numeric_limits<std::int64_t>::max());
  order.rank = static_cast<int>(Number(getenv, env::kRestoreRank, world_size));
  order.requeue_number = MakerNumber(getenv, env::kRestoreEpoch);
  order.generation = MakerNumber(getenv, env::kRestoreGeneration);
  return order;
}

std::optional<RestoreOrder> ReadUnseen(const Getenv& getenv, int world_size) {
  const char* const text = getenv(env::kRestoreUnseen);
  if (text == nullptr) return std::nullopt;
  RestoreOrder unseen;
  std::istringstream numbers(text);
  numbers >> unseen.step >> unseen.rank >> unseen.requeue_number >> unseen.generation;
  if (!numbers || unseen.step < 0 || unseen.rank < 0 || unseen.rank >= world_size) {
    throw ConfigError("the environment has " + std::string(env::kRestoreUnseen) + "=" + text +
                      ", but expected is \"STEP RANK EPOCH GENERATION\", with a rank below " +
                      std::to_string(world_size));
  }
  return unseen;
}

bool IsOfThisRun(const Getenv& getenv, const RestoreOrder& order) {
  return order.generation >= 0 && MakerNumber(getenv, env::kGeneration) > 0 &&
         MakerNumber(getenv, env::kEpoch) == order.requeue_number;
}

bool BeginsAnew(const Getenv& getenv) {
  const char* const anew = getenv(env::kAnew);
  return anew != nullptr && std::string_view(anew) == "1";
}

bool IsRequeued(const Getenv& getenv) { return MakerNumber(getenv, env::kEpoch) > 0; }

bool IsFromBefore(const Getenv& getenv, const Metadata& metadata) {
  const char* const run = getenv(env::kJobRunId);
  if (!BeginsAnew(getenv) || MakerNumber(getenv, env::kEpoch) != 0 || run == nullptr) return false;
  const auto made_by = metadata.find(checkpoint_file::kRun);
  return made_by == metadata.end() || made_by->second != run;
}

std::chrono::milliseconds StateTimeout(const Getenv& getenv) {
  if (getenv(env::kStateTimeout) == nullptr) return ddprun::kDefaultStateTimeout;
  return std::chrono::milliseconds(
      Number(getenv, env::kStateTimeout, ddprun::kMaxTimeout.count() + 1));
}

void AddMaker(const Getenv& getenv, Metadata* metadata) {
  const char* const job = getenv(env::kRunId);
  const char* const requeue_number = getenv(env::kEpoch);
  const char* const generation = getenv(env::kGeneration);
  if (job == nullptr || requeue_number == nullptr || generation == nullptr) return;
  (*metadata)[checkpoint_file::kJob] = job;
  (*metadata)[checkpoint_file::kEpoch] = requeue_number;
  (*metadata)[checkpoint_file::kGeneration] = generation;
}

}  // namespace ddp::internal
