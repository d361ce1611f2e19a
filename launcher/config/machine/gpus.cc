#include "launcher/config/machine/gpus.h"

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
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/config/machine/numbered_entries.h"

namespace ddprun {
namespace {

constexpr char kGpu[] = "GPU-";
constexpr char kInstance[] = "MIG-";

// The value of the line "NAME: value" in a file of the driver; "": no such line.
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

// The whole number in a file, which may be negative; −1: none.
int NumaNodeAt(const std::string& path) {
  std::ifstream file(path);
  int node = -1;
  return file >> node ? node : -1;
}

// GPUs that the driver and the kernel list, by the number of the device file.
std::map<int, Gpu> KnownGpus(const std::string& root) {
  std::map<int, Gpu> gpus;
  std::error_code error;
  for (std::filesystem::directory_iterator
           it(absl::StrCat(root, "/proc/driver/nvidia/gpus"), error),
       end;
       !error && it != end; it.increment(error)) {
    const std::string information = (it->path() / "information").string();
    const auto minor = NumberOf(ValueIn(information, "Device Minor"));
    if (!minor) continue;
    Gpu& gpu = gpus[*minor];
    gpu.uuid = ValueIn(information, "GPU UUID");
    gpu.pci = it->path().filename().string();
    gpu.numa_node = NumaNodeAt(absl::StrCat(root, "/sys/bus/pci/devices/", gpu.pci, "/numa_node"));
  }
  return gpus;
}

// A PCI domain has four or more digits.
void SortByPciAddress(std::vector<Gpu>* gpus) {
  if (std::any_of(gpus->begin(), gpus->end(), [](const Gpu& gpu) { return gpu.pci.empty(); })) {
    return;
  }
  std::sort(gpus->begin(), gpus->end(), [](const Gpu& a, const Gpu& b) {
    return std::pair(a.pci.size(), a.pci) < std::pair(b.pci.size(), b.pci);
  });
}

// The kernel checks the file's mode and the cgroup's device limits.
bool MayOpen(const std::string& path, int mode) { return access(path.c_str(), mode) == 0; }

// Whether this process has the capability that `folder`/access describes.
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

// The device that an entry of CUDA_VISIBLE_DEVICES names.
struct Device {
  std::string name;  // identical for the same device
  std::optional<std::size_t> owner{};
};

Device OfNumber(const std::vector<Gpu>& gpus, int number) {
  const auto index = static_cast<std::size_t>(number);
  return {absl::StrCat(number), gpus.empty() ? std::nullopt : std::optional(index)};
}

// nullopt: the entry names no device.
std::optional<Device> DeviceOf(const std::vector<Gpu>& gpus, absl::string_view entry) {
  const bool knows_uuids =
      std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return !gpu.uuid.empty(); });
  if (const auto number = NumberOf(entry)) {
    if (!gpus.empty() && *number >= static_cast<int>(gpus.size())) return std::nullopt;
    return OfNumber(gpus, *number);
  }
  if (absl::StartsWith(entry, kInstance)) return Device{std::string(entry)};
  if (!absl::StartsWith(entry, kGpu)) return std::nullopt;
  if (!knows_uuids) return Device{std::string(entry)};
  const auto is_meant = [entry](const Gpu& gpu) { return absl::StartsWith(gpu.uuid, entry); };
  const auto found = std::find_if(gpus.begin(), gpus.end(), is_meant);
  if (found == gpus.end() || std::any_of(found + 1, gpus.end(), is_meant)) return std::nullopt;
  return Device{found->uuid, static_cast<std::size_t>(found - gpus.begin())};
}

VisibleGpus CountAll(const std::vector<Gpu>& gpus) {
  VisibleGpus whole;
  VisibleGpus instances;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (!gpus[i].is_divided) whole.owners.emplace_back(i);
    instances.owners.insert(instances.owners.end(), static_cast<std::size_t>(gpus[i].instances), i);
  }
  VisibleGpus& result = whole.owners.empty() ? instances : whole;
  result.count = static_cast<int>(result.owners.size());
  result.are_instances = whole.owners.empty() && result.count > 0;
  return result;
}

}  // namespace

std::vector<Gpu> ReadGpus(const std::string& root) {
  std::vector<Gpu> gpus;
  const std::map<int, Gpu> known = KnownGpus(root);
  for (const int minor : Numbered(absl::StrCat(root, "/dev"), "nvidia")) {
    if (!MayOpen(absl::StrCat(root, "/dev/nvidia", minor), R_OK | W_OK)) continue;
    const auto found = known.find(minor);
    Gpu gpu = found == known.end() ? Gpu() : found->second;
    ReadInstances(root, minor, &gpu);
    gpus.push_back(std::move(gpu));
  }
  SortByPciAddress(&gpus);
  return gpus;
}

// /dev/dxg: WSL. /dev/kfd: AMD. The others: NVIDIA's Tegra.
bool HasOtherGpuDevices() {
  constexpr const char* kDevices[] = {"/dev/dxg", "/dev/kfd", "/dev/nvgpu", "/dev/nvhost-gpu"};
  return std::any_of(std::begin(kDevices), std::end(kDevices),
                     [](const char* device) { return access(device, F_OK) == 0; });
}

bool HasGpuDevices() { return access("/dev/nvidiactl", F_OK) == 0 || HasOtherGpuDevices(); }

VisibleGpus CountVisible(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible) {
  if (!visible) return CountAll(gpus);
  VisibleGpus result;
  std::set<std::string> devices;
  for (absl::string_view entry : absl::StrSplit(*visible, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    const auto device = DeviceOf(gpus, entry);
    if (!device) break;
    if (!devices.insert(device->name).second) return {};
    result.are_instances = result.are_instances || absl::StartsWith(entry, kInstance);
    result.owners.push_back(device->owner);
    ++result.count;
  }
  return result;
}

}  // namespace ddprun
