#include "worker/src/state/staging_buffer.h"

#include <ddp/errors.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "worker/src/group/failure.h"

namespace ddp::internal {
namespace {

std::byte* Map(std::size_t bytes) {
  void* const map =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    throw CheckpointError("no memory for a copy of the state, " + std::to_string(bytes) +
                          " bytes: " + std::strerror(errno));
  }
  madvise(map, bytes, MADV_HUGEPAGE);  // 512 times fewer pages to touch
#ifdef MADV_POPULATE_WRITE
  if (madvise(map, bytes, MADV_POPULATE_WRITE) == 0) return static_cast<std::byte*>(map);
#endif
  std::memset(map, 0, bytes);
  return static_cast<std::byte*>(map);
}

torch::Tensor Pinned(std::size_t bytes) {
  try {
    return torch::empty({static_cast<std::int64_t>(bytes)},
                        torch::TensorOptions(torch::kUInt8).pinned_memory(true));
  } catch (const std::exception& e) {
    throw CheckpointError("no pinned memory for a copy of the state, " + std::to_string(bytes) +
                          " bytes: " + TextOf(e));
  }
}

}  // namespace

StagingBuffer::~StagingBuffer() { Free(); }

std::byte* StagingBuffer::Reserve(std::size_t bytes, bool pinned) {
  if (bytes > size_ || pinned != pinned_.defined()) {
    Free();
    if (pinned) {
      pinned_ = Pinned(bytes);
    } else {
      map_ = Map(bytes);
    }
    size_ = bytes;
  }
  return pinned ? static_cast<std::byte*>(pinned_.data_ptr()) : map_;
}

void StagingBuffer::Free() {
  if (map_ != nullptr) munmap(map_, size_);
  map_ = nullptr;
  pinned_ = torch::Tensor();
  size_ = 0;
}

}  // namespace ddp::internal
