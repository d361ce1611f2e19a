// Tensors, and where they lie in a checkpoint: one block of memory, in the order of the file.
#ifndef DDPRUN_WORKER_SRC_STATE_IMAGE_H_
#define DDPRUN_WORKER_SRC_STATE_IMAGE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "worker/src/model_sync.h"
#include "worker/src/safetensors.h"

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

  // Copies the values of now to `memory`, of bytes(), and returns when they are there. What is
  // returned points into it, in the order of a file.
  std::vector<TensorBytes> CopyTo(std::byte* memory) const;

 private:
  struct Item {
    TensorInfo info;
    torch::Tensor tensor;
    std::size_t offset = 0;
  };
  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  bool has_gpu_tensors_ = false;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_IMAGE_H_
