// Any file is parsed as a file of torch.save, or is refused. A parsed file can be written again and
// means the same. If the first byte of an input is 0, the rest is a file. Otherwise the rest is a
// pickle, and the target makes storages for it, so that no valid zip directory is needed.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tests/fuzz/index_check.h"
#include "tests/fuzz/require.h"
#include "worker/src/formats/format_error.h"
#include "worker/src/formats/torch_archive.h"

namespace ddp::internal {
namespace {

using ddprun::Require;

void CheckRewritten(const TensorIndex& index) {
  const std::string pickle = WriteTorchPickle(index);
  const TensorIndex again = IndexTorchPickle(pickle, [&](std::string_view key) {
    return index.storages[std::stoul(std::string(key))].bytes;
  });
  Require(again.tensors.size() == index.tensors.size(), "no tensor is lost");
  for (std::size_t i = 0; i < index.tensors.size(); ++i) {
    const TensorView& a = index.tensors[i];
    const TensorView& b = again.tensors[i];
    const StorageView& storage = again.storages[b.storage];
    Require(a.name == b.name && a.offset == b.offset && a.shape == b.shape &&
                a.strides == b.strides && storage.dtype == index.storages[a.storage].dtype &&
                storage.bytes.data() == index.storages[a.storage].bytes.data(),
            "tensors come back equal", a.name);
  }
}

void CheckFile(std::string_view file) {
  try {
    const TensorIndex index = IndexTorchArchive(file);
    CheckIndex(index, file);
    CheckRewritten(index);
  } catch (const FormatError& e) {
    CheckRefusal(e.what());
  }
}

void CheckPickle(std::string_view pickle) {
  static const std::string* const kBytes = new std::string(1 << 16, 'x');
  std::size_t used = 0;
  try {
    const TensorIndex index = IndexTorchPickle(pickle, [&](std::string_view key) {
      const std::size_t size = key.empty() ? 0 : static_cast<unsigned char>(key[0]);
      if (used + size > kBytes->size()) throw FormatError("used up");
      used += size;
      return std::string_view(*kBytes).substr(used - size, size);
    });
    CheckIndex(index, *kBytes);
    Require(index.tensors.size() <= pickle.size(), "there are no more tensors than bytes");
    CheckRewritten(index);
  } catch (const FormatError& e) {
    CheckRefusal(e.what());
  }
}

}  // namespace
}  // namespace ddp::internal

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 0) {
    ddp::internal::CheckFile(rest);
  } else {
    ddp::internal::CheckPickle(rest);
  }
  return 0;
}
