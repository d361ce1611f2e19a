// Tensors and their places in a checkpoint: one block of memory, in the order of the file.
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

// Converts a dtype to its safetensors name, and back. Throws CheckpointError for a type that the
// other side lacks.
std::string DtypeName(const std::string& tensor, torch::ScalarType type);
torch::ScalarType DtypeOf(const TensorInfo& info);

// The plan of a copy, made once the tensors are known. It can copy into any memory that is large
// enough, for a file or for another process.
class StateImage {
 public:
  // Keeps references to the tensors, not their present values. Throws CheckpointError for a dtype
  // that a checkpoint cannot hold.
  explicit StateImage(std::vector<NamedTensor> tensors);

  std::size_t bytes() const { return bytes_; }
  bool has_gpu_tensors() const { return has_gpu_tensors_; }

  // Copies the present values to `memory`, of bytes(). The result points into the memory, in the
  // order of a file, and lacks only step and metadata.
  //
  // With has_gpu_tensors() the memory must be pinned, and the copy may still run on return. The GPU
  // copies after its earlier work and before any later work, so only CheckpointImage::await waits.
  CheckpointImage CopyTo(std::byte* memory) const;

  // CopyTo for memory that is not pinned. `pinned`, also of bytes(), is in use until
  // CheckpointImage::await returns, which copies from there to `memory`.
  CheckpointImage CopyTo(std::byte* memory, std::byte* pinned) const;

 private:
  struct Item {
    TensorInfo info;
    torch::Tensor tensor;
    std::size_t offset = 0;
  };
  // Begins the copy to `memory`; returns CheckpointImage::await.
  std::function<bool()> Copy(std::byte* memory) const;
  // Starts the copy of the GPU's tensors; returns the stream that copies.
  c10::Stream CopyFrom(c10::Device gpu, std::byte* memory) const;
  // The tensors at `memory`, as entries of a file.
  std::vector<TensorBytes> At(const std::byte* memory) const;

  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  bool has_gpu_tensors_ = false;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_STATE_IMAGE_H_
