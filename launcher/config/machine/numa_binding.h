// --numa-binding: the CPUs of each worker, near its GPU.
//
// Source of the rules: torch/numa/binding.py of PyTorch 2.9. The worker with local rank i belongs
// to the GPU that CUDA calls i. Beyond torchrun: a node without GPUs spreads its workers evenly
// over its NUMA nodes.
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

// Pure. The CPUs of each worker, of `cpus`, by local rank. Each worker has a place, and there may
// be more places than workers: a place is a visible GPU, or the worker itself where there are no
// GPUs. `nodes` has the NUMA node of each place.
//   node          all of the place's NUMA node
//   socket        all of the NUMA nodes on the same socket
//   exclusive     the node's physical cores, divided among its places; the first ones get one more
//   core-complex  the CPUs that share one last-level cache. The node's caches are given out in
//   turn,
//                 first the one with the most CPUs
// FailedPrecondition: the text is for the user, and names the node.
absl::StatusOr<std::vector<CpuList>> DivideCpus(const std::string& mode,
                                                const std::vector<Cpu>& cpus,
                                                const std::vector<int>& nodes, int workers);

struct NumaBinding {
  std::vector<CpuList> cpus;          // by local rank; empty: workers are not bound
  std::vector<std::string> warnings;  // for people
};

// What `config` asks for, on the machine that `host` is. FailedPrecondition, with a text for the
// user: this machine cannot bind the workers so.
absl::StatusOr<NumaBinding> BindWorkers(const JobConfig& config, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_NUMA_BINDING_H_
