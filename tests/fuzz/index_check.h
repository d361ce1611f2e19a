// The rules that an index of tensors must keep, whatever the file contains.
#ifndef DDPRUN_TESTS_FUZZ_INDEX_CHECK_H_
#define DDPRUN_TESTS_FUZZ_INDEX_CHECK_H_

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "tests/fuzz/require.h"
#include "worker/src/formats/tensor_index.h"

namespace ddp::internal {

inline void CheckRefusal(const std::string& text) {
  ddprun::Require(!text.empty() && text.size() < 2048, "a refusal is short", text);
  for (const char c : text) {
    ddprun::Require(std::isprint(static_cast<unsigned char>(c)) != 0,
                    "a refusal is one line of text", text);
  }
}

// Every storage is in `file`, and all together are no larger than `file`. Every element of every
// tensor is in its storage. No name occurs twice.
inline void CheckIndex(const TensorIndex& index, std::string_view file) {
  using ddprun::Require;
  std::size_t total = 0;
  for (const StorageView& storage : index.storages) {
    total += storage.bytes.size();
    if (storage.bytes.empty()) continue;
    Require(storage.bytes.data() >= file.data() &&
                storage.bytes.data() + storage.bytes.size() <= file.data() + file.size(),
            "a storage lies in the file");
  }
  Require(total <= file.size(), "storages have no bytes in common");
  std::set<std::string_view> names;
  for (const TensorView& tensor : index.tensors) {
    Require(names.insert(tensor.name).second, "names differ", tensor.name);
    Require(tensor.storage < index.storages.size(), "a tensor has a storage", tensor.name);
    Require(tensor.shape.size() == tensor.strides.size() && tensor.shape.size() <= kMaxDimensions,
            "as many strides as extents", tensor.name);
    const StorageView& storage = index.storages[tensor.storage];
    const auto elements = storage.bytes.size() / InfoOf(storage.dtype).size;
    bool empty = false;
    __int128 last = tensor.offset;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      Require(tensor.shape[i] >= 0 && tensor.strides[i] >= 0, "nothing is negative", tensor.name);
      empty |= tensor.shape[i] == 0;
      last += static_cast<__int128>(tensor.shape[i] - 1) * tensor.strides[i];
    }
    Require(tensor.offset >= 0, "an offset is not negative", tensor.name);
    Require(empty || last < static_cast<__int128>(elements), "a tensor lies in its storage",
            tensor.name);
  }
}

}  // namespace ddp::internal

#endif  // DDPRUN_TESTS_FUZZ_INDEX_CHECK_H_
