// The CPUs that this process may use, and where each of them is in the machine, as sysfs tells.
#ifndef DDPRUN_LAUNCHER_CONFIG_MACHINE_CPUS_H_
#define DDPRUN_LAUNCHER_CONFIG_MACHINE_CPUS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun {

using CpuList = std::vector<int>;  // numbers as the kernel gives them, in order, each once

// One logical CPU.
struct Cpu {
  int number = 0;
  int node = 0;    // NUMA node
  int socket = 0;  // physical package
  int core = 0;    // the lowest number of a CPU on the same physical core
  int cache = 0;   // the lowest number of a CPU that shares the last-level data cache
};

// The kernel's list format, "0-3,8". What is no number, and no range, is skipped.
CpuList ParseCpuList(absl::string_view text);
std::string FormatCpuList(const CpuList& cpus);

// The affinity mask of the calling thread; empty where the kernel does not tell it.
CpuList AllowedCpus();

// Where each of `allowed` is, in that order. `root` is put before /sys: a folder in tests, else "".
// What sysfs does not say (in some containers and VMs) counts as node 0, socket 0, a core of its
// own, and one cache for each node.
std::vector<Cpu> ReadCpus(const std::string& root, const CpuList& allowed);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_CPUS_H_
