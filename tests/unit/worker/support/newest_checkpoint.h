// The checkpoint that a training would go on from.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_NEWEST_CHECKPOINT_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_NEWEST_CHECKPOINT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "worker/src/base/xxh3.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/checkpoint_folder.h"

namespace ddp::test {

// Throws DamagedError unless all tensors of `file` have the hashes that its header gives them.
inline void Verify(const internal::SafetensorsFile& file) {
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const internal::TensorBytes& tensor = file.tensors()[i];
    if (internal::HashText(internal::Xxh3(tensor.data, tensor.size)) == file.hash(i)) continue;
    throw internal::DamagedError("tensor " + tensor.info.name + " has a wrong hash");
  }
}

// A search that stands at the newest file of `folder` whose hashes are right; null if there is
// none. Others are set aside.
inline std::unique_ptr<internal::CheckpointSearch> FindNewest(const std::string& folder) {
  auto search = std::make_unique<internal::CheckpointSearch>(0, std::vector<std::string>{folder});
  while (search->Next()) {
    try {
      Verify(search->file());
      return search;
    } catch (const internal::DamagedError& e) {
      search->SetAside(e.what());
    }
  }
  return nullptr;
}

}  // namespace ddp::test

#endif  // DDPRUN_TESTS_UNIT_WORKER_SUPPORT_NEWEST_CHECKPOINT_H_
