// The GPUs that a worker started by this process would see. Determined without NVIDIA's library,
// which may be missing or hang with the driver.
//
// Source of the rules: observation of how CUDA 13 reads CUDA_VISIBLE_DEVICES (docs/gpu.md), and
// NVIDIA's user guide of MIG.
#ifndef DDPRUN_LAUNCHER_CONFIG_MACHINE_GPUS_H_
#define DDPRUN_LAUNCHER_CONFIG_MACHINE_GPUS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct Gpu {
  std::string uuid{};  // "GPU-..."; "": the driver does not say
  // Divided into MIG instances; CUDA then shows the instances, not the GPU.
  bool is_divided = false;
  int instances = 0;   // of a divided GPU: instances that this process may use
  std::string pci{};   // address, "0000:1b:00.0"; "": the driver does not say
  int numa_node = -1;  // -1: the kernel does not say
};

// The GPUs whose device files this process may open, in the order in which CUDA numbers equal GPUs:
// by PCI address, or by the device file's number if the driver does not tell the address. Device
// limits of the cgroup count. `root` is put before /dev, /proc and /sys: a folder in tests, else
// "".
std::vector<Gpu> ReadGpus(const std::string& root);

struct VisibleGpus {
  int count = 0;
  // They are MIG instances. CUDA shows a process only the first one, so each worker needs its own
  // CUDA_VISIBLE_DEVICES.
  bool are_instances = false;
  // The GPU of each: an index into `gpus`. nullopt: not known.
  std::vector<std::optional<std::size_t>> owners{};
};

// `visible`: CUDA_VISIBLE_DEVICES, or not set. Like CUDA, it counts entries up to the first that
// names no GPU, and none at all if two entries name the same GPU. If `gpus` is empty, numbers and
// UUIDs cannot be checked, and every well-formed entry counts.
VisibleGpus CountVisible(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_GPUS_H_
