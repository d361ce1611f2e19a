// Finds and checks the tensors in an untrusted, possibly hostile file, without making a tensor.
// Nothing in the file is run. No allocation depends on a size that the file claims: the index grows
// only with bytes that really exist. Every tensor lies within its storage, and the storages lie
// within the file without overlap. So a caller that copies all storages allocates at most the size
// of the file.
#ifndef DDPRUN_WORKER_SRC_FORMATS_TENSOR_INDEX_H_
#define DDPRUN_WORKER_SRC_FORMATS_TENSOR_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/src/formats/dtype.h"

namespace ddp::internal {

// A sequence of elements of one dtype.
struct StorageView {
  std::string_view bytes;  // in the file, which must outlive this; not aligned
  Dtype dtype = Dtype::kF32;
};

struct TensorView {
  std::string name;
  std::size_t storage = 0;  // index in TensorIndex::storages; the storage has the dtype
  std::int64_t offset = 0;  // of the first element, in elements
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements; none is negative; one per dimension
};

struct TensorIndex {
  std::vector<StorageView> storages;
  std::vector<TensorView> tensors;  // in the file's order; no name occurs twice
  bool big_endian = false;          // the elements' byte order
};

inline constexpr std::size_t kMaxDimensions = 64;  // many functions of libtorch take no more

// Throws FormatError unless every element of `tensor` lies within a storage of `storage_elements`
// elements of `element_size` bytes, and the tensor's size in bytes fits in 63 bits.
void CheckView(const TensorView& tensor, std::uint64_t storage_elements, std::size_t element_size);

// The strides, in elements, of a contiguous tensor.
std::vector<std::int64_t> ContiguousStrides(const std::vector<std::int64_t>& shape);

// The index of `file`, which is the content of a safetensors file, or of a file from torch.save or
// torch::save. The first bytes tell the format. `file` must outlive the result. Throws FormatError.
TensorIndex IndexTensorFile(std::string_view file);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_TENSOR_INDEX_H_
