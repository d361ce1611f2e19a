#include "worker/src/formats/tensor_index.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "worker/src/formats/format_error.h"
#include "worker/src/formats/safetensors_index.h"
#include "worker/src/formats/torch_archive.h"

namespace ddp::internal {
namespace {

constexpr std::string_view kZipMagic = "PK\3\4";
// From torch.save before PyTorch 1.6, or without _use_new_zipfile_serialization: a pickle of a
// number.
constexpr std::string_view kLegacyMagic =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

}  // namespace

void CheckView(const TensorView& tensor, std::uint64_t storage_elements, std::size_t element_size) {
  const auto fail = [&](const std::string& what) {
    throw FormatError("tensor " + Quoted(tensor.name) + " " + what);
  };
  if (tensor.shape.size() > kMaxDimensions) fail("has more than 64 dimensions");
  if (tensor.shape.size() != tensor.strides.size()) {
    fail("has " + std::to_string(tensor.shape.size()) + " extents, but " +
         std::to_string(tensor.strides.size()) + " strides");
  }
  if (tensor.offset < 0) fail("begins before its storage");
  // An empty tensor must also have a size that can be represented: the product of its non-zero
  // dimensions.
  std::int64_t bytes = static_cast<std::int64_t>(element_size);
  bool empty = false;
  auto last = static_cast<std::int64_t>(tensor.offset);
  bool overflow = false;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const std::int64_t extent = tensor.shape[i];
    const std::int64_t stride = tensor.strides[i];
    if (extent < 0) fail("has a negative extent");
    if (stride < 0) fail("has a negative stride");
    if (extent == 0) {
      empty = true;
      continue;
    }
    std::int64_t step = 0;
    overflow |= __builtin_mul_overflow(bytes, extent, &bytes);
    overflow |= __builtin_mul_overflow(extent - 1, stride, &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  if (overflow) fail("has an impossible shape");
  if (empty) {
    if (static_cast<std::uint64_t>(tensor.offset) > storage_elements)
      fail("is outside its storage");
  } else if (static_cast<std::uint64_t>(last) >= storage_elements) {
    fail("reaches element " + std::to_string(last) + " of a storage that has " +
         std::to_string(storage_elements));
  }
}

std::vector<std::int64_t> ContiguousStrides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i > 1; --i) {
    // Like PyTorch, counts a dimension of 0 as 1.
    const std::int64_t extent = shape[i - 1] > 0 ? shape[i - 1] : 1;
    if (__builtin_mul_overflow(strides[i - 1], extent, &strides[i - 2])) {
      throw FormatError("a tensor has an impossible shape");
    }
  }
  return strides;
}

TensorIndex IndexTensorFile(std::string_view file) {
  if (file.substr(0, kZipMagic.size()) == kZipMagic) return IndexTorchArchive(file);
  if (file.substr(0, kLegacyMagic.size()) == kLegacyMagic) {
    throw FormatError(
        "it has the format that torch.save wrote before PyTorch 1.6, which is not read here. "
        "Load it in Python, and save it again with torch.save");
  }
  if (file.size() > 8 && file[8] == '{') return IndexSafetensors(file);
  throw FormatError("it is neither a file of torch.save nor a safetensors file (" +
                    std::to_string(file.size()) + " bytes, which begin with " +
                    Quoted(file.substr(0, 8)) + ")");
}

}  // namespace ddp::internal
