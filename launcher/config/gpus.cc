#include "launcher/config/gpus.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace ddprun {
namespace {

constexpr char kGpu[] = "GPU-";
constexpr char kInstance[] = "MIG-";

std::optional<int> NumberOf(absl::string_view text) {
  int number = 0;
  const bool is_number =
      !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (!is_number || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

// The numbers N of the entries `prefix`N in `folder`, in order.
std::vector<int> Numbered(const std::string& folder, absl::string_view prefix) {
  std::vector<int> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, prefix)) continue;
    if (const auto number = NumberOf(rest)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The value of the line "NAME: value" in a file of the driver; "" if there is none.
std::string ValueIn(const std::string& path, absl::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) == name) {
      return std::string(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return "";
}

// UUIDs by the number of the device file.
std::map<int, std::string> Uuids(const std::string& root) {
  std::map<int, std::string> uuids;
  std::error_code error;
  for (std::filesystem::directory_iterator
           it(absl::StrCat(root, "/proc/driver/nvidia/gpus"), error),
       end;
       !error && it != end; it.increment(error)) {
    const std::string information = (it->path() / "information").string();
    if (const auto minor = NumberOf(ValueIn(information, "Device Minor"))) {
      uuids[*minor] = ValueIn(information, "GPU UUID");
    }
  }
  return uuids;
}

// The kernel looks at the file's mode and at the device limits of the control group.
bool MayOpen(const std::string& path, int mode) { return access(path.c_str(), mode) == 0; }

// Whether the capability that the driver describes in `folder`/access is this process's.
bool HasCapability(const std::string& root, const std::string& folder) {
  const auto minor = NumberOf(ValueIn(absl::StrCat(folder, "/access"), "DeviceFileMinor"));
  return minor && MayOpen(absl::StrCat(root, "/dev/nvidia-caps/nvidia-cap", *minor), R_OK);
}

void ReadInstances(const std::string& root, int minor, Gpu* gpu) {
  const std::string mig = absl::StrCat(root, "/proc/driver/nvidia/capabilities/gpu", minor, "/mig");
  for (const int instance : Numbered(mig, "gi")) {
    gpu->is_divided = true;
    const std::string folder = absl::StrCat(mig, "/gi", instance);
    if (!HasCapability(root, folder)) continue;
    for (const int compute : Numbered(folder, "ci")) {
      if (HasCapability(root, absl::StrCat(folder, "/ci", compute))) ++gpu->instances;
    }
  }
}

// What an entry of CUDA_VISIBLE_DEVICES names, in a form that is the same for the same device; not
// set if it names none.
std::optional<std::string> DeviceOf(const std::vector<Gpu>& gpus, absl::string_view entry) {
  const bool knows_uuids =
      std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return !gpu.uuid.empty(); });
  if (const auto number = NumberOf(entry)) {
    if (!gpus.empty() && *number >= static_cast<int>(gpus.size())) return std::nullopt;
    return absl::StrCat(*number);
  }
  if (absl::StartsWith(entry, kInstance)) return std::string(entry);
  if (!absl::StartsWith(entry, kGpu)) return std::nullopt;
  if (!knows_uuids) return std::string(entry);
  const auto is_meant = [entry](const Gpu& gpu) { return absl::StartsWith(gpu.uuid, entry); };
  const auto found = std::find_if(gpus.begin(), gpus.end(), is_meant);
  if (found == gpus.end() || std::any_of(found + 1, gpus.end(), is_meant)) return std::nullopt;
  return found->uuid;
}

VisibleGpus CountAll(const std::vector<Gpu>& gpus) {
  VisibleGpus result;
  int instances = 0;
  for (const Gpu& gpu : gpus) {
    if (!gpu.is_divided) ++result.count;
    instances += gpu.instances;
  }
  if (result.count > 0) return result;
  return {instances, instances > 0};
}

}  // namespace

std::vector<Gpu> ReadGpus(const std::string& root) {
  std::vector<Gpu> gpus;
  const std::map<int, std::string> uuids = Uuids(root);
  for (const int minor : Numbered(absl::StrCat(root, "/dev"), "nvidia")) {
    if (!MayOpen(absl::StrCat(root, "/dev/nvidia", minor), R_OK | W_OK)) continue;
    Gpu gpu;
    if (const auto uuid = uuids.find(minor); uuid != uuids.end()) gpu.uuid = uuid->second;
    ReadInstances(root, minor, &gpu);
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

VisibleGpus CountVisible(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible) {
  if (!visible) return CountAll(gpus);
  VisibleGpus result;
  std::set<std::string> devices;
  for (absl::string_view entry : absl::StrSplit(*visible, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    const auto device = DeviceOf(gpus, entry);
    if (!device) break;
    if (!devices.insert(*device).second) return {};
    result.are_instances = result.are_instances || absl::StartsWith(entry, kInstance);
    ++result.count;
  }
  return result;
}

}  // namespace ddprun
