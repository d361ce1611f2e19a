// Nvml: what NVIDIA's driver says of the GPUs of this host. Its library is opened at run time:
// ddprun runs on hosts that have none.
//
// One thread at a time, and not the agent's: a driver that hangs, hangs its callers.
#ifndef DDPRUN_LAUNCHER_OS_NVML_H_
#define DDPRUN_LAUNCHER_OS_NVML_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// What is not set, this GPU or driver does not tell.
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
  // nullptr: there is no such library, or no driver that it can talk to.
  static std::unique_ptr<Nvml> Open(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Of all GPUs of the host, by index. One that has fallen off the bus has its index alone.
  std::vector<GpuReading> Read();

 private:
  class Library;
  explicit Nvml(std::unique_ptr<Library> library);
  const std::unique_ptr<Library> library_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_NVML_H_
