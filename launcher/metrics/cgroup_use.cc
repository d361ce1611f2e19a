#include "launcher/metrics/cgroup_use.h"

#include <fstream>

namespace ddprun {
namespace {

// The process's group of version 2, below its root; nullopt: none.
std::optional<std::string> OwnGroup(const std::string& proc) {
  std::ifstream file(proc + "/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::/", 0) == 0) return line.substr(3);
  }
  return std::nullopt;
}

std::optional<std::int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (!(file >> number)) return std::nullopt;  // also for "max"
  return number;
}

std::optional<std::chrono::microseconds> ThrottledIn(const std::string& path) {
  std::ifstream file(path);
  std::string name;
  std::int64_t value = 0;
  while (file >> name >> value) {
    if (name == "throttled_usec") return std::chrono::microseconds(value);
  }
  return std::nullopt;
}

}  // namespace

CgroupUse ReadCgroupUse(const std::string& proc, const std::string& root) {
  const std::optional<std::string> group = OwnGroup(proc);
  if (!group) return {};
  const std::string folder = root + *group;
  return {NumberIn(folder + "/memory.current"), NumberIn(folder + "/memory.max"),
          ThrottledIn(folder + "/cpu.stat")};
}

}  // namespace ddprun
