#include "worker/src/kept_memory.h"

#include <cstdlib>
#include <string_view>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ddp::internal {

bool KeepFreedMemory(const std::function<const char*(const char* name)>& get_environment) {
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
  // Large blocks come from the heap, too, instead of a mapping each; and the heap is not trimmed.
  return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, -1) == 1;
#else
  return false;
#endif
}

}  // namespace ddp::internal
