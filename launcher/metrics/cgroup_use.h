// The resource use of this process's cgroup; needs cgroups version 2. Reads small files that never
// wait for a disk. Any thread.
#ifndef DDPRUN_LAUNCHER_METRICS_CGROUP_USE_H_
#define DDPRUN_LAUNCHER_METRICS_CGROUP_USE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

struct CgroupUse {
  std::optional<std::int64_t> memory_bytes{};
  std::optional<std::int64_t> memory_limit_bytes{};  // nullopt: none
  std::optional<std::chrono::microseconds> throttled{};

  friend bool operator==(const CgroupUse&, const CgroupUse&) = default;
};

// Tests pass other folders.
CgroupUse ReadCgroupUse(const std::string& proc = "/proc/self",
                        const std::string& root = "/sys/fs/cgroup");

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_METRICS_CGROUP_USE_H_
