// Reads safetensors files of any program: the format's own rules, all of them enforced, and none of
// the metadata and hashes that ddprun's checkpoints add.
#ifndef DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_
#define DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_

#include <string_view>

#include "worker/src/formats/tensor_index.h"

namespace ddp::internal {

// Tensors in the order of their bytes. `file` must outlive what is returned. Throws FormatError.
//
// Refused: a header that is longer than the file or 100 MB, is not JSON, is nested deeper than
// the format's, says anything twice, or has a field that the format does not have; a dtype that
// the format does not have; offsets that do not fit the shape, overlap, leave a gap, or do
// not end with the file.
TensorIndex IndexSafetensors(std::string_view file);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_FORMATS_SAFETENSORS_INDEX_H_
