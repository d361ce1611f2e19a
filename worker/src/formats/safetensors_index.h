// Reads safetensors files of any program: the format's own rules, all of them enforced. What
// ddprun's checkpoints add is checked by SafetensorsFile.
#ifndef DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_
#define DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "worker/src/formats/dtype.h"
#include "worker/src/formats/tensor_index.h"

namespace ddp::internal {

inline constexpr char kSafetensorsMetadata[] = "__metadata__";  // a key of the header
inline constexpr std::size_t kSafetensorsPrefixBytes = 8;       // the header's size, before it

using Metadata = std::map<std::string, std::string>;

// What a header says; its offsets are not compared with anything yet.
struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    const DtypeInfo* dtype = nullptr;
    std::vector<std::int64_t> shape;
    std::vector<std::uint64_t> offsets;  // begin and end in `data`
  };

  std::vector<Tensor> tensors;  // in the header's order; no name twice
  Metadata metadata;
};

// The bytes of the header, as the file's first kSafetensorsPrefixBytes say. `front`: those, or the
// whole file where it is shorter. Throws DamagedError for more than the file has, or 100 MB.
std::size_t SafetensorsHeaderBytes(std::string_view front, std::uint64_t file_bytes);

// `text`: the header, JSON and perhaps spaces behind it. Throws FormatError where it is not JSON,
// is nested deeper than the format's, says anything twice, or has a field or a dtype that the
// format does not have.
SafetensorsHeader ReadSafetensorsHeader(std::string_view text);

// Where a tensor lies in the bytes behind the header.
struct TensorExtent {
  std::string name;
  const DtypeInfo* dtype = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

// The tensors of `header` in the order of their bytes. Throws DamagedError for offsets that do not
// fit the shape, overlap, leave a gap, or do not end with the `data_bytes` behind the header.
std::vector<TensorExtent> ExtentsOf(SafetensorsHeader header, std::uint64_t data_bytes);

// All of it, of a file in memory, which must outlive what is returned.
TensorIndex IndexSafetensors(std::string_view file);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_
