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

  std::string_view text;        // JSON, and perhaps spaces behind it
  std::string_view data;        // what follows the header
  std::vector<Tensor> tensors;  // in the header's order; no name twice
  Metadata metadata;
};

// The JSON of the header of `file`. Throws DamagedError where it is longer than the file or 100 MB.
std::string_view SafetensorsHeaderText(std::string_view file);

// `file` must outlive what is returned. Throws FormatError, too, for a header that is not JSON, is
// nested deeper than the format's, says anything twice, or has a field or a dtype that the format
// does not have.
SafetensorsHeader ReadSafetensorsHeader(std::string_view file);

// The tensors of `header` in the order of their bytes. Throws DamagedError for offsets that do not
// fit the shape, overlap, leave a gap, or do not end with the file.
TensorIndex IndexOf(SafetensorsHeader header);

// Both. `file` must outlive what is returned.
TensorIndex IndexSafetensors(std::string_view file);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_
