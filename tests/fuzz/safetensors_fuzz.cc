// Any file is parsed or refused as safetensors; the tensors of a parsed file cover it exactly.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/index_check.h"
#include "tests/fuzz/require.h"
#include "worker/src/formats/format_error.h"
#include "worker/src/formats/safetensors_index.h"

namespace ddp::internal {
namespace {

void Check(std::string_view file) {
  TensorIndex index;
  try {
    index = IndexSafetensors(file);
  } catch (const FormatError& e) {
    CheckRefusal(e.what());
    return;
  }
  CheckIndex(index, file);
  const char* end = nullptr;
  for (const StorageView& storage : index.storages) {
    ddprun::Require(end == nullptr || storage.bytes.data() == end, "there are no gaps");
    end = storage.bytes.data() + storage.bytes.size();
  }
  ddprun::Require(end == nullptr || end == file.data() + file.size(), "they end with the file");
}

}  // namespace
}  // namespace ddp::internal

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddp::internal::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
