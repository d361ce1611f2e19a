#include "worker/src/base/malloc_retention.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ddp::internal {
namespace {

// Mapping many pages of 4 KiB costs the kernel about as much as zeroing them. Unmapping them costs
// as much again when the process ends, while other processes wait for its exit.
constexpr std::size_t kLargePages = std::size_t{256} << 20;

// Values from Linux 5.14 and 6.1. Older headers lack them.
constexpr int kPopulateWrite = 23;
constexpr int kCollapse = 25;

// Calls madvise on the memory that malloc will use for the next allocations.
void AdviseNext(std::size_t bytes, int advice) {
  void* const block = std::malloc(bytes);
  if (block == nullptr) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(block) + page - 1) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(block) + bytes) / page * page;
  // The advice is optional, so errors are ignored.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
  std::free(block);
}

}  // namespace

bool RetainFreedMemory(const std::function<const char*(const char* name)>& get_environment) {
  for (const char* const name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
                                 "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"}) {
    if (get_environment(name) != nullptr) return false;
  }
  const char* const tunables = get_environment("GLIBC_TUNABLES");
  if (tunables != nullptr &&
      std::string_view(tunables).find("glibc.malloc.") != std::string_view::npos) {
    return false;
  }
#ifdef __GLIBC__
  // Large blocks then come from the heap instead of a mapping each. The heap is not trimmed.
  if (mallopt(M_MMAP_MAX, 0) != 1 || mallopt(M_TRIM_THRESHOLD, -1) != 1) return false;
  AdviseNext(kLargePages, MADV_HUGEPAGE);
  return true;
#else
  return false;
#endif
}

void TakeMemoryAhead(std::size_t bytes) {
  AdviseNext(bytes, kPopulateWrite);
  std::ifstream maps("/proc/self/maps");
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> heap;
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with("[heap]")) continue;
    char* end = nullptr;
    const std::uintptr_t from = std::strtoull(line.c_str(), &end, 16);
    heap.emplace_back(from, std::strtoull(end + 1, nullptr, 16));
  }
  for (const auto& [from, to] : heap) madvise(reinterpret_cast<void*>(from), to - from, kCollapse);
}

}  // namespace ddp::internal
