#include "launcher/os/nvml.h"

#include <dlfcn.h>

#include <cstddef>
#include <utility>

namespace ddprun {
namespace {

// NVML's ABI, from its documentation; these calls have not changed since driver 450.
using Device = void*;
using EventSet = void*;
constexpr int kSuccess = 0;
constexpr int kGpuTemperature = 0;
constexpr int kCorrected = 0;
constexpr int kUncorrected = 1;
constexpr int kSinceDriverLoad = 0;
constexpr unsigned long long kXidEvent = 0x8;
constexpr int kMostEvents = 1024;  // per Read()

}  // namespace

class Nvml::Library {
  // Types of NVML.
  struct Utilization {
    unsigned gpu;  // percent
    unsigned memory;
  };
  struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
  };
  struct EventData {
    Device device;
    unsigned long long type;
    unsigned long long data;  // the number of an XID event
    unsigned gpu_instance;
    unsigned compute_instance;
  };

 public:
  explicit Library(void* handle) : handle_(handle) {
    Find("nvmlInit_v2", &init_);
    Find("nvmlShutdown", &shutdown_);
    Find("nvmlDeviceGetCount_v2", &count_);
    Find("nvmlDeviceGetHandleByIndex_v2", &device_);
    Find("nvmlDeviceGetUtilizationRates", &utilization_);
    Find("nvmlDeviceGetMemoryInfo", &memory_);
    Find("nvmlDeviceGetTemperature", &temperature_);
    Find("nvmlDeviceGetTotalEccErrors", &ecc_);
    Find("nvmlEventSetCreate", &create_events_);
    Find("nvmlEventSetFree", &free_events_);
    Find("nvmlDeviceRegisterEvents", &register_events_);
    Find("nvmlEventSetWait_v2", &wait_);
  }
  ~Library() {
    if (events_ != nullptr) free_events_(events_);
    if (initialized_) shutdown_();
    dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool Start() {
    if (!complete_ || init_() != kSuccess) return false;
    initialized_ = true;
    unsigned count = 0;
    if (count_(&count) != kSuccess) return false;
    gpus_.resize(count);
    if (create_events_(&events_) != kSuccess) events_ = nullptr;
    for (unsigned i = 0; i < count; ++i) Begin(i);
    return true;
  }

  std::vector<GpuReading> Read() {
    TakeEvents();
    std::vector<GpuReading> readings;
    for (std::size_t i = 0; i < gpus_.size(); ++i) readings.push_back(ReadOne(i));
    return readings;
  }

 private:
  struct Gpu {
    Device device = nullptr;
    bool tells_xids = false;
    std::int64_t xids = 0;
    std::int64_t last_xid = 0;
  };

  template <class Function>
  void Find(const char* name, Function** function) {
    *function = reinterpret_cast<Function*>(dlsym(handle_, name));
    complete_ = complete_ && *function != nullptr;
  }

  void Begin(unsigned index) {
    Gpu& gpu = gpus_[index];
    if (device_(index, &gpu.device) != kSuccess) gpu.device = nullptr;
    gpu.tells_xids = gpu.device != nullptr && events_ != nullptr &&
                     register_events_(gpu.device, kXidEvent, events_) == kSuccess;
  }

  void TakeEvents() {
    EventData event{};
    for (int i = 0; events_ != nullptr && i < kMostEvents; ++i) {
      if (wait_(events_, &event, /*timeout_ms=*/0) != kSuccess) return;
      for (Gpu& gpu : gpus_) {
        if (gpu.device != event.device || event.type != kXidEvent) continue;
        ++gpu.xids;
        gpu.last_xid = static_cast<std::int64_t>(event.data);
      }
    }
  }

  GpuReading ReadOne(std::size_t index) const {
    const Gpu& gpu = gpus_[index];
    GpuReading reading{static_cast<int>(index)};
    if (gpu.device == nullptr) return reading;
    Utilization utilization{};
    if (utilization_(gpu.device, &utilization) == kSuccess) {
      reading.utilization = utilization.gpu / 100.0;
    }
    Memory memory{};
    if (memory_(gpu.device, &memory) == kSuccess) {
      reading.memory_used = static_cast<std::int64_t>(memory.used);
      reading.memory_size = static_cast<std::int64_t>(memory.total);
    }
    unsigned celsius = 0;
    if (temperature_(gpu.device, kGpuTemperature, &celsius) == kSuccess) {
      reading.celsius = static_cast<int>(celsius);
    }
    reading.ecc_corrected = EccErrors(gpu.device, kCorrected);
    reading.ecc_uncorrected = EccErrors(gpu.device, kUncorrected);
    if (gpu.tells_xids) reading.xid_errors = gpu.xids;
    reading.last_xid = gpu.last_xid;
    return reading;
  }

  std::optional<std::int64_t> EccErrors(Device device, int type) const {
    unsigned long long count = 0;
    if (ecc_(device, type, kSinceDriverLoad, &count) != kSuccess) return std::nullopt;
    return static_cast<std::int64_t>(count);
  }

  void* const handle_;
  bool complete_ = true;  // the library has all functions
  bool initialized_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*device_)(unsigned, Device*) = nullptr;
  int (*utilization_)(Device, Utilization*) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
  int (*temperature_)(Device, int, unsigned*) = nullptr;
  int (*ecc_)(Device, int, int, unsigned long long*) = nullptr;
  int (*create_events_)(EventSet*) = nullptr;
  int (*free_events_)(EventSet) = nullptr;
  int (*register_events_)(Device, unsigned long long, EventSet) = nullptr;
  int (*wait_)(EventSet, EventData*, unsigned) = nullptr;
  EventSet events_ = nullptr;
  std::vector<Gpu> gpus_;
};

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::~Nvml() = default;

std::unique_ptr<Nvml> Nvml::Open(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  auto opened = std::make_unique<Library>(handle);
  if (!opened->Start()) return nullptr;
  return std::unique_ptr<Nvml>(new Nvml(std::move(opened)));
}

std::vector<GpuReading> Nvml::Read() { return library_->Read(); }

}  // namespace ddprun
