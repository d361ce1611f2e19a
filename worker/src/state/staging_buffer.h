// Memory for a copy of the training's state, so that the state can be written while training
// continues. The first touch of new memory takes longer than the copy, so the memory is allocated
// once and reused.
#ifndef DDPRUN_WORKER_SRC_STATE_STAGING_BUFFER_H_
#define DDPRUN_WORKER_SRC_STATE_STAGING_BUFFER_H_

#include <torch/types.h>

#include <cstddef>

namespace ddp::internal {

// Only one thread may use it at a time.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  // Returns at least `bytes` of touched memory, aligned for every dtype. Reuses the memory of the
  // last call if it is large enough and `pinned` is the same. Otherwise it allocates new memory,
  // and the old contents are lost. `pinned`: a GPU can copy to the memory without the CPU. Throws
  // CheckpointError if there is not enough memory.
  std::byte* Reserve(std::size_t bytes, bool pinned);

 private:
  void Free();

  std::size_t size_ = 0;
  std::byte* map_ = nullptr;  // set if the memory is not pinned
  torch::Tensor pinned_;      // owns the memory if it is pinned
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_STAGING_BUFFER_H_
