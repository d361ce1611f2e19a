// Reads safetensors files of any program and enforces all rules of the format. SafetensorsFile
// checks the additions of ddprun.
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
inline constexpr std::size_t kSafetensorsPrefixBytes = 8;       // holds the size of the header

using Metadata = std::map<std::string, std::string>;

// The contents of a header. Its offsets are not checked yet.
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

// The header's size from the first kSafetensorsPrefixBytes of the file. `front`: these bytes, or
// the whole file if it is shorter. Throws DamagedError if the size exceeds the file or 100 MB.
std::size_t SafetensorsHeaderBytes(std::string_view front, std::uint64_t file_bytes);

// `text`: the header, JSON with optional trailing spaces. Throws FormatError if it is not JSON, is
// nested deeper than the format allows, contains a key twice, or has an unknown field or dtype.
SafetensorsHeader ReadSafetensorsHeader(std::string_view text);

// The place of a tensor in the bytes after the header.
struct TensorExtent {
  std::string name;
  const DtypeInfo* dtype = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

// The tensors of `header` in the order of their bytes. Throws DamagedError for offsets that do not
// fit the shape, overlap, leave a gap, or do not end with the `data_bytes` after the header.
std::vector<TensorExtent> ExtentsOf(SafetensorsHeader header, std::uint64_t data_bytes);

// All steps for a file in memory. `file` must outlive the result.
TensorIndex IndexSafetensors(std::string_view file);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_
