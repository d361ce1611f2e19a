// Tensors and their places in a checkpoint, which is one block of memory in the order of the file.
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

// Converts a dtype to its safetensors name, and back. Throws CheckpointError if a checkpoint cannot
// hold the type, for example a complex type.
std::string DtypeName(const std::string& tensor, torch::ScalarType type);
torch::ScalarType DtypeOf(const TensorInfo& info);

// The plan of a copy, made once the tensors are known. It can copy to any memory that is large
// enough, for a file or for another process.
class StateImage {
 public:
  // Keeps references to the tensors, but does not copy their values yet. Throws CheckpointError for
  // a dtype that a checkpoint cannot hold.
  explicit StateImage(std::vector<NamedTensor> tensors);

  std::size_t bytes() const { return bytes_; }
  bool has_gpu_tensors() const { return has_gpu_tensors_; }

  // Copies the current values to `memory`, which has bytes() bytes. The result points into the
  // memory, in the order of a file. The caller adds step and metadata.
  //
  // With has_gpu_tensors() the memory must be pinned, and the GPU may still copy when this returns.
  // The GPU copies after the earlier work of its current stream and before that stream's later
  // work. Only CheckpointImage::await waits for the end of the copy.
  CheckpointImage CopyTo(std::byte* memory) const;

  // CopyTo for memory that is not pinned. The GPU copies to `pinned` (also bytes() bytes), and
  // CheckpointImage::await copies from there to `memory`. `pinned` is in use until await returns.
  CheckpointImage CopyTo(std::byte* memory, std::byte* pinned) const;

 private:
  struct Item {
    TensorInfo info;
    torch::Tensor tensor;
    std::size_t offset = 0;
  };
  // Begins the copy to `memory`. Returns the function for CheckpointImage::await.
  std::function<bool()> Copy(std::byte* memory) const;
  // Starts the copy of the tensors of `gpu`. Returns the stream that copies.
  c10::Stream CopyFrom(c10::Device gpu, std::byte* memory) const;
  // The tensors at `memory` as entries of a file.
  std::vector<TensorBytes> At(const std::byte* memory) const;

  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  bool has_gpu_tensors_ = false;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_STATE_IMAGE_H_
