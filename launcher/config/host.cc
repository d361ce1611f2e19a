#include "launcher/config/host.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
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

int PosixHost::CpuCount() const { return std::max(1, static_cast<int>(AllowedCpus().size())); }

std::vector<Cpu> PosixHost::Cpus() const { return ReadCpus("", AllowedCpus()); }

std::vector<Gpu> PosixHost::Gpus() const { return ReadGpus(""); }

bool PosixHost::MayHaveOtherGpus() const { return HasOtherGpuDevices(); }

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

VisibleGpus VisibleGpusOf(const Host& host) { return GpusOfWorkers({}, host); }

std::optional<std::string> DevicesOfWorkers(const std::map<std::string, std::string>& env,
                                            const Host& host) {
  const auto of_job = env.find("CUDA_VISIBLE_DEVICES");
  return of_job == env.end() ? host.Environment("CUDA_VISIBLE_DEVICES") : of_job->second;
}

VisibleGpus GpusOfWorkers(const std::map<std::string, std::string>& env, const Host& host) {
  const std::vector<Gpu> gpus = host.Gpus();
  if (gpus.empty() && !host.MayHaveOtherGpus()) return {};
  return CountVisible(gpus, DevicesOfWorkers(env, host));
}

}  // namespace ddprun
