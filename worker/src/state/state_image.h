// Tensors, and where they lie in a checkpoint: one block of memory, in the order of the file.
#ifndef DDPRUN_WORKER_SRC_STATE_STATE_IMAGE_H_
#define DDPRUN_WORKER_SRC_STATE_STATE_IMAGE_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "worker/src/data_parallel/model_sync.h"
#include "worker/src/storage/checkpoint_folder.h"

namespace ddp::internal {

// A tensor's dtype as safetensors call it, and back. Throw CheckpointError for what one of the two
// does not have.
std::string DtypeName(const std::string& tensor, torch::ScalarType type);
torch::ScalarType DtypeOf(const TensorInfo& info);

// A plan of a copy: made once the tensors are known, carried out into any memory that is large
// enough, be it for a file or for another process.
class StateImage {
 public:
  // Keeps the tensors, not their values of now. Throws CheckpointError for a dtype that a
  // checkpoint cannot hold.
  explicit StateImage(std::vector<NamedTensor> tensors);

  std::size_t bytes() const { return bytes_; }
  bool has_gpu_tensors() const { return has_gpu_tensors_; }

  // Copies the values of now to `memory`, of bytes(). What is returned is whole but for step and
  // metadata, and points into the memory, in the order of a file.
  //
  // With has_gpu_tensors() the memory must be pinned, and the copy may be under way: the GPU makes
  // it when it has done what it was told before, and does what it is told from now on after it. So
  // nobody waits for the GPU, but CheckpointImage::await.
  CheckpointImage CopyTo(std::byte* memory) const;

  // The same, for memory that is not pinned: `pinned`, of bytes() too, is used until
  // CheckpointImage::await has returned, which copies from there to `memory`.
  CheckpointImage CopyTo(std::byte* memory, std::byte* pinned) const;

 private:
  struct Item {
    TensorInfo info;
    torch::Tensor tensor;
    std::size_t offset = 0;
  };
  // Begins to copy to `memory`; returns CheckpointImage::await.
  std::function<bool()> Copy(std::byte* memory) const;
  // Has the GPU copy its tensors; returns the stream on which it does.
  c10::Stream CopyFrom(c10::Device gpu, std::byte* memory) const;
  // What a file holds of the tensors, which are at `memory`.
  std::vector<TensorBytes> At(const std::byte* memory) const;

  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  bool has_gpu_tensors_ = false;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_STATE_IMAGE_H_
