#include "rendezvous/store/batches.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ddprun {

std::size_t BytesOf(const Store::Batch& batch) {
  std::size_t bytes = 0;
  for (const Store::Write& write : batch) {
    bytes += sizeof(write) + write.key.size() + (write.value ? write.value->size() : 0);
  }
  return bytes;
}

Store::Batch Merge(std::vector<Store::Batch>& batches) {
  std::map<std::string, std::optional<std::string>> last;
  for (Store::Batch& batch : batches) {
    for (Store::Write& write : batch) last[std::move(write.key)] = std::move(write.value);
  }
  batches.clear();
  Store::Batch merged;
  merged.reserve(last.size());
  while (!last.empty()) {
    auto node = last.extract(last.begin());
    merged.push_back({std::move(node.key()), std::move(node.mapped())});
  }
  return merged;
}

}  // namespace ddprun
