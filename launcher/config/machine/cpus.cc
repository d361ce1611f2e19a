#include "launcher/config/machine/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/config/machine/numbered_entries.h"

namespace ddprun {
namespace {

constexpr int kMostCpus = 1 << 20;  // more than any kernel supports; bounds what a file can claim

// The value in a sysfs file, without white space around it; "": unreadable.
std::string ValueAt(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::string(absl::StripAsciiWhitespace(text));
}

std::map<int, int> NodeOfCpus(const std::string& root) {
  std::map<int, int> nodes;
  const std::string folder = root + "/sys/devices/system/node";
  for (const int node : Numbered(folder, "node")) {
    for (const int cpu : ParseCpuList(ValueAt(absl::StrCat(folder, "/node", node, "/cpulist")))) {
      nodes[cpu] = node;
    }
  }
  return nodes;
}

// The lowest number of a list in a file; nullopt: none.
std::optional<int> LowestAt(const std::string& path) {
  const CpuList cpus = ParseCpuList(ValueAt(path));
  if (cpus.empty()) return std::nullopt;
  return cpus.front();
}

// The lowest CPU that shares the last-level data cache. `folder`: the CPU's in sysfs.
std::optional<int> CacheOf(const std::string& folder) {
  int highest = -1;
  std::optional<int> cache;
  for (const int index : Numbered(folder + "/cache", "index")) {
    const std::string entry = absl::StrCat(folder, "/cache/index", index);
    const int level = NumberOf(ValueAt(entry + "/level")).value_or(-1);
    if (level <= highest || ValueAt(entry + "/type") == "Instruction") continue;
    highest = level;
    cache = LowestAt(entry + "/shared_cpu_list");
  }
  return cache;
}

}  // namespace

CpuList ParseCpuList(absl::string_view text) {
  CpuList cpus;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits('-', 1));
    const auto first = NumberOf(ends.first);
    const auto last = ends.second.empty() ? first : NumberOf(ends.second);
    if (!first || !last || *last >= kMostCpus) continue;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string FormatCpuList(const CpuList& cpus) {
  std::vector<std::string> ranges;
  for (std::size_t first = 0, last = 0; first < cpus.size(); first = ++last) {
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    ranges.push_back(first == last ? absl::StrCat(cpus[first])
                                   : absl::StrCat(cpus[first], "-", cpus[last]));
  }
  return absl::StrJoin(ranges, ",");
}

CpuList AllowedCpus() {
  // The kernel refuses a mask that is smaller than its own, so grow it until it fits.
  for (int size = 1024; size <= kMostCpus; size *= 2) {
    cpu_set_t* const set = CPU_ALLOC(size);
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    CPU_ZERO_S(bytes, set);
    CpuList cpus;
    if (sched_getaffinity(0, bytes, set) == 0) {
      for (int cpu = 0; cpu < size; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  return {};
}

std::vector<Cpu> ReadCpus(const std::string& root, const CpuList& allowed) {
  const std::map<int, int> nodes = NodeOfCpus(root);
  std::map<int, int> cache_of_node;  // if sysfs has no caches
  std::vector<Cpu> cpus;
  for (const int number : allowed) {
    const std::string folder = absl::StrCat(root, "/sys/devices/system/cpu/cpu", number);
    Cpu cpu;
    cpu.number = number;
    if (const auto node = nodes.find(number); node != nodes.end()) cpu.node = node->second;
    cpu.socket = NumberOf(ValueAt(folder + "/topology/physical_package_id")).value_or(0);
    cpu.core = LowestAt(folder + "/topology/thread_siblings_list").value_or(number);
    const auto cache = CacheOf(folder);
    cpu.cache = cache ? *cache : cache_of_node.emplace(cpu.node, number).first->second;
    cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace ddprun
