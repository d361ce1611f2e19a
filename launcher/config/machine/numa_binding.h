// --numa-binding: the CPUs of each worker, near its GPU.
//
// Source of the rules: torch/numa/binding.py of PyTorch 2.9. The worker with local rank i belongs
// to CUDA's GPU i. Unlike torchrun, a node without GPUs spreads its workers evenly over its NUMA
// nodes.
#ifndef DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMA_BINDING_H_
#define DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMA_BINDING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/config/host.h"
#include "launcher/config/job_config.h"
#include "launcher/config/machine/cpus.h"

namespace ddprun {

inline constexpr char kNoBinding[] = "off";

// Distributes `cpus` among the workers; the result is by local rank. Each worker has a place: a
// visible GPU, or the worker itself if there are no GPUs. There may be more places than workers.
// `nodes`: the NUMA node of each place.
//   node          all CPUs of the place's NUMA node
//   socket        all CPUs of the NUMA nodes on the same socket
//   exclusive     the node's physical cores, divided among its places; the first ones get one more
//   core-complex  the CPUs of one last-level cache; a node's caches are assigned in turn, beginning
//                 with the one that has the most CPUs
// FailedPrecondition: a text for the user that names the node. Pure.
absl::StatusOr<std::vector<CpuList>> DivideCpus(const std::string& mode,
                                                const std::vector<Cpu>& cpus,
                                                const std::vector<int>& nodes, int workers);

struct NumaBinding {
  std::vector<CpuList> cpus;          // by local rank; empty: workers are not bound
  std::vector<std::string> warnings;  // for people
};

// The binding that `config` asks for, on the machine `host`. FailedPrecondition, with a text for
// the user: this machine cannot bind the workers in this way.
absl::StatusOr<NumaBinding> BindWorkers(const JobConfig& config, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMA_BINDING_H_
