// Stands in for NVIDIA's libnvidia-ml.so.1, with two GPUs. The first GPU reports twice that it has
// fallen off the bus (XID 79). The second GPU has no ECC memory and reports no events.
#include <cstdint>

namespace {
int gpus[2];
int events;
int xids_left = 2;
constexpr int kNotSupported = 3;
constexpr int kTimeout = 10;
int IndexOf(const void* device) { return device == &gpus[0] ? 0 : 1; }
}  // namespace

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct EventData {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
  *utilization = {IndexOf(device) == 0 ? 87U : 0U, 40};
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {80'000'000'000, 20'000'000'000, 60'000'000'000};
  return 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 71;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int, unsigned long long* count) {
  *count = type == 0 ? 12 : 1;
  return IndexOf(device) == 0 ? 0 : kNotSupported;
}
int nvmlEventSetCreate(void** set) {
  *set = &events;
  return 0;
}
int nvmlEventSetFree(void*) { return 0; }
int nvmlDeviceRegisterEvents(void* device, unsigned long long, void*) {
  return IndexOf(device) == 0 ? 0 : kNotSupported;
}
int nvmlEventSetWait_v2(void*, EventData* event, unsigned) {
  if (xids_left == 0) return kTimeout;
  --xids_left;
  *event = {&gpus[0], 0x8, 79, 0, 0};
  return 0;
}
}
