// Nvml: facts from NVIDIA's driver about the GPUs of this host. The library is opened at run time,
// because ddprun also runs on hosts without it.
//
// One thread at a time, but not the agent's thread: if the driver hangs, its caller hangs.
#ifndef DDPRUN_LAUNCHER_OS_NVML_H_
#define DDPRUN_LAUNCHER_OS_NVML_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// A fact is not set if this GPU or driver does not report it.
struct GpuReading {
  int index = 0;
  std::optional<double> utilization{};  // 0 to 1
  std::optional<std::int64_t> memory_used{};
  std::optional<std::int64_t> memory_size{};
  std::optional<int> celsius{};
  std::optional<std::int64_t> ecc_corrected{};  // since the driver was loaded
  std::optional<std::int64_t> ecc_uncorrected{};
  std::optional<std::int64_t> xid_errors{};  // since Open()
  std::int64_t last_xid = 0;                 // 0: none
};

class Nvml {
 public:
  // nullptr: no such library, or no matching driver.
  static std::unique_ptr<Nvml> Open(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // All GPUs of the host, by index. A GPU off the bus has at most its index and its XID errors.
  std::vector<GpuReading> Read();

 private:
  class Library;
  explicit Nvml(std::unique_ptr<Library> library);
  const std::unique_ptr<Library> library_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_NVML_H_
