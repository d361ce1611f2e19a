// The GPUs that a worker of this process would see. Found without NVIDIA's library, which may be
// missing or hang with the driver.
//
// Sources of the rules: how CUDA 13 was observed to read CUDA_VISIBLE_DEVICES (docs/gpu.md), and
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
  int instances = 0;   // instances of a divided GPU that this process is allowed to use
  std::string pci{};   // address, "0000:1b:00.0"; "": the driver does not say
  int numa_node = -1;  // -1: the kernel does not say
};

// The GPUs whose device files this process is allowed to open, also by the cgroup's device limits.
// In the order in which CUDA numbers GPUs of the same model: by PCI address, or by the number of
// the device file if the driver does not report the address. `root` is put before /dev, /proc and
// /sys: a folder in tests, else "".
std::vector<Gpu> ReadGpus(const std::string& root);

// Whether there may be GPUs that ReadGpus() cannot list, because their driver is not NVIDIA's
// driver for PCI: AMD's, WSL's or Tegra's.
bool HasOtherGpuDevices();

// Whether a GPU can be used on this node. Not cached, because some drivers appear with the first
// program that needs them.
bool HasGpuDevices();

struct VisibleGpus {
  int count = 0;
  // True: they are MIG instances. CUDA shows only the first instance to a process, so each worker
  // needs its own CUDA_VISIBLE_DEVICES.
  bool are_instances = false;
  // The GPU of each visible device: an index into `gpus`. nullopt: not known.
  std::vector<std::optional<std::size_t>> owners{};
};

// `visible`: the value of CUDA_VISIBLE_DEVICES, or nullopt. Counts like CUDA: entries count up to
// the first entry that names no GPU; if two entries name the same GPU, no entry counts. If `gpus`
// is empty, numbers and UUIDs cannot be checked, and every well-formed entry counts.
VisibleGpus CountVisible(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_MACHINE_GPUS_H_
