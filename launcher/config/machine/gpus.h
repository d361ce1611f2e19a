// The GPUs that a worker started from here would see, told without NVIDIA's library: that one may
// hang with the driver, and need not be there.
//
// Source of the rules: how CUDA reads CUDA_VISIBLE_DEVICES, seen with CUDA 13 (docs/gpu.md), and
// NVIDIA's user guide of MIG.
#ifndef DDPRUN_LAUNCHER_CONFIG_MACHINE_GPUS_H_
#define DDPRUN_LAUNCHER_CONFIG_MACHINE_GPUS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct Gpu {
  std::string uuid{};       // "GPU-..."; "": the driver does not say
  bool is_divided = false;  // into instances (MIG). CUDA shows those then, and not the GPU
  int instances = 0;        // that this process may use, of a divided one
  std::string pci{};        // address, "0000:1b:00.0"; "": the driver does not say
  int numa_node = -1;       // -1: the kernel does not say
};

// Those whose device files this process may open, as CUDA numbers equal GPUs: by PCI address, or by
// the number of the device file where the driver does not say it. A control group that limits
// devices counts. `root` is put before /dev, /proc and /sys: a folder in tests, else "".
std::vector<Gpu> ReadGpus(const std::string& root);

struct VisibleGpus {
  int count = 0;
  // They are instances of divided GPUs. CUDA shows a process the first one alone, so each worker
  // needs a CUDA_VISIBLE_DEVICES of its own.
  bool are_instances = false;
  // Of each, its GPU: an index into `gpus`. nullopt: it is not known which.
  std::vector<std::optional<std::size_t>> owners{};
};

// `visible`: CUDA_VISIBLE_DEVICES, or not set. Like CUDA, it counts entries up to the first one
// that names no GPU, and none at all where two name the same one. Where `gpus` is empty nothing is
// known about numbers and UUIDs, and each that is well formed counts.
VisibleGpus CountVisible(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_GPUS_H_
