#include "launcher/config/host.h"

#include <limits.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace ddprun {

std::optional<std::string> PosixHost::Environment(const std::string& name) const {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

int PosixHost::CpuCount() const {
  // The kernel refuses a mask that is smaller than its own, so grow it until it fits.
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 2) {
    cpu_set_t* const set = CPU_ALLOC(cpus);
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(bytes, set);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return 1;
}

std::vector<Gpu> PosixHost::Gpus() const { return ReadGpus(""); }

std::string PosixHost::CurrentDirectory() const {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::current_path(error);
  return error ? "/" : path.string();
}

std::string PosixHost::Name() const {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::string PosixHost::HostsFile() const {
  std::ifstream file("/etc/hosts");
  return {std::istreambuf_iterator<char>(file), {}};
}

VisibleGpus VisibleGpusOf(const Host& host) {
  return CountVisible(host.Gpus(), host.Environment("CUDA_VISIBLE_DEVICES"));
}

}  // namespace ddprun
