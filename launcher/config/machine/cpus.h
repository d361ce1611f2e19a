// The CPUs that this process is allowed to use, and their places in the machine, from sysfs.
#ifndef DDPRUN_LAUNCHER_CONFIG_MACHINE_CPUS_H_
#define DDPRUN_LAUNCHER_CONFIG_MACHINE_CPUS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ddprun {

using CpuList = std::vector<int>;  // the kernel's numbers, ascending, unique

// One logical CPU.
struct Cpu {
  int number = 0;
  int node = 0;    // NUMA node
  int socket = 0;  // physical package
  int core = 0;    // the lowest number of a CPU on the same physical core
  int cache = 0;   // the lowest number of a CPU that shares the last-level data cache
};

// The kernel's list format, "0-3,8". Skips parts that are neither a number nor a range.
CpuList ParseCpuList(absl::string_view text);
std::string FormatCpuList(const CpuList& cpus);

// The affinity mask of the calling thread; empty: the kernel does not report it.
CpuList AllowedCpus();

// The places of the CPUs in `allowed`, in the same order. `root` is put before /sys: a folder in
// tests, else "". If sysfs does not have them (some containers and VMs), the defaults are node 0,
// socket 0, one core per CPU, and one cache per node.
std::vector<Cpu> ReadCpus(const std::string& root, const CpuList& allowed);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_CPUS_H_
