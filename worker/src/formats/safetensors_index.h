// Reads safetensors files of any program, and enforces all rules of the format. SafetensorsFile
// checks what ddprun adds.
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

// The contents of a header. The offsets are not checked yet.
struct SafetensorsHeader {
  struct Tensor {
    std::string name;
    const DtypeInfo* dtype = nullptr;
    std::vector<std::int64_t> shape;
    std::vector<std::uint64_t> offsets;  // begin and end in the bytes after the header
  };

  std::vector<Tensor> tensors;  // in the header's order; no name occurs twice
  Metadata metadata;
};

// The header's size. `front` is the first kSafetensorsPrefixBytes of the file, or the whole file if
// it is shorter. Throws DamagedError if the file is shorter, or if the size exceeds the file or 100
// MB.
std::size_t SafetensorsHeaderBytes(std::string_view front, std::uint64_t file_bytes);

// `text` is the header: JSON with optional spaces at the end. Throws FormatError if it is not JSON,
// or breaks a rule of the format: for example, a key occurs twice, or a dtype is unknown.
SafetensorsHeader ReadSafetensorsHeader(std::string_view text);

// A tensor's place in the bytes after the header.
struct TensorExtent {
  std::string name;
  const DtypeInfo* dtype = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

// The tensors of `header` in the order of their bytes. `data_bytes` is the number of bytes after
// the header. Throws FormatError if a tensor's shape needs more bytes than its offsets give. Throws
// DamagedError if the shape needs fewer bytes, if tensors overlap or leave a gap, or if they do not
// end at `data_bytes`.
std::vector<TensorExtent> ExtentsOf(SafetensorsHeader header, std::uint64_t data_bytes);

// Does all of the above for a file in memory. `file` must outlive the result.
TensorIndex IndexSafetensors(std::string_view file);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_
