// The names of the files in a checkpoint folder.
#ifndef DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_NAME_H_
#define DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_NAME_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "worker/contract/checkpoint_file.h"
#include "worker/contract/control.h"

namespace ddp::internal {

// For example step-000000001200.safetensors. `step` must not be negative.
inline std::string CheckpointName(std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof(name), "%s%012lld%s", ddprun::checkpoint_file::kPrefix,
                static_cast<long long>(step), ddprun::checkpoint_file::kSuffix);
  return name;
}

// The step in the name of a checkpoint, with any number of digits. nullopt: the name has another
// form.
inline std::optional<std::int64_t> StepOf(std::string_view name) {
  constexpr std::string_view kPrefix = ddprun::checkpoint_file::kPrefix;
  constexpr std::string_view kSuffix = ddprun::checkpoint_file::kSuffix;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return ddprun::control::ParseNumber(name);
}

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_CHECKPOINT_NAME_H_
