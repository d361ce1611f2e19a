#include "launcher/config/host.h"

#include <limits.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ddprun {
namespace {

bool IsAllDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

}  // namespace

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

int PosixHost::GpuDeviceCount() const {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/dev", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view number = name;
    if (absl::ConsumePrefix(&number, "nvidia") && IsAllDigits(number)) ++count;
  }
  return count;
}

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

int VisibleGpuCount(const Host& host) {
  const std::optional<std::string> visible = host.Environment("CUDA_VISIBLE_DEVICES");
  if (!visible.has_value()) return host.GpuDeviceCount();
  int count = 0;
  for (absl::string_view entry : absl::StrSplit(*visible, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    const bool valid =
        IsAllDigits(entry) || absl::StartsWith(entry, "GPU-") || absl::StartsWith(entry, "MIG-");
    if (!valid) break;
    ++count;
  }
  return count;
}

}  // namespace ddprun
