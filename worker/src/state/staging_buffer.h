// Memory into which the state of a training is copied, so that it can be written while training
// goes on. Memory that is touched for the first time costs more than the copy itself: it is made
// once and used again.
#ifndef DDPRUN_WORKER_SRC_STATE_STAGING_BUFFER_H_
#define DDPRUN_WORKER_SRC_STATE_STAGING_BUFFER_H_

#include <torch/types.h>

#include <cstddef>

namespace ddp::internal {

// One thread at a time.
class StagingBuffer {
 public:
  StagingBuffer() = default;
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  // At least `bytes` of memory, aligned for every dtype, all of which has been touched; the same as
  // the last time if that is large enough, otherwise new, and the contents are gone. `pinned`: a
  // GPU can copy to it without the CPU's help. Throws CheckpointError if there is not enough
  // memory.
  std::byte* Reserve(std::size_t bytes, bool pinned);

 private:
  void Free();

  std::size_t size_ = 0;
  std::byte* map_ = nullptr;  // ours, if the memory is not pinned
  torch::Tensor pinned_;      // owns it, if it is
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_STAGING_BUFFER_H_
