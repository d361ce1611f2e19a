// Where the tensors lie in a file that somebody else wrote, and may have written to do harm: found
// and checked without making one of them. Nothing that a file says is run, and nothing is
// allocated because a file says so: what an index takes grows with the bytes that are really there.
// Every view of an index lies within its storage, and the storages lie within the file, apart
// from each other; so whoever copies them all allocates at most the size of the file.
#ifndef DDPRUN_WORKER_SRC_FORMATS_TENSOR_INDEX_H_
#define DDPRUN_WORKER_SRC_FORMATS_TENSOR_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/src/formats/dtype.h"

namespace ddp::internal {

// Elements of one dtype, one after the other.
struct StorageView {
  std::string_view bytes;  // in the file, which must outlive this; aligned to nothing
  Dtype dtype = Dtype::kF32;
};

struct TensorView {
  std::string name;
  std::size_t storage = 0;  // its number in TensorIndex::storages, which knows the dtype
  std::int64_t offset = 0;  // of the first element, in elements
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements, none negative; as many as extents
};

struct TensorIndex {
  std::vector<StorageView> storages;
  std::vector<TensorView> tensors;  // in the file's order; no name twice
  bool big_endian = false;          // the elements' byte order
};

inline constexpr std::size_t kMaxDimensions = 64;  // as libtorch

// Throws FormatError unless every element of `tensor` is within a storage of `storage_elements`
// elements of `element_size` bytes, and its size in bytes can be told in 63 bits.
void CheckView(const TensorView& tensor, std::uint64_t storage_elements, std::size_t element_size);

// The strides, in elements, of a tensor whose elements lie in order without gaps.
std::vector<std::int64_t> ContiguousStrides(const std::vector<std::int64_t>& shape);

// The index of `file`, the content of a safetensors file, or of one that torch.save or
// torch::save wrote; which of them, its first bytes tell. `file` must outlive what is returned.
// Throws FormatError.
TensorIndex IndexTensorFile(std::string_view file);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_TENSOR_INDEX_H_
