// The checkpoint that a training would go on from.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_NEWEST_CHECKPOINT_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_NEWEST_CHECKPOINT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "worker/src/storage/checkpoint_folder.h"

namespace ddp::test {

// A search that stands at the newest file of `folder` whose hashes are right; null if there is
// none. Others are set aside.
inline std::unique_ptr<internal::CheckpointSearch> FindNewest(const std::string& folder) {
  auto search = std::make_unique<internal::CheckpointSearch>(0, std::vector<std::string>{folder});
  while (search->Next()) {
    try {
      const std::size_t count = search->file().tensors().size();
      for (std::size_t i = 0; i < count; ++i) search->file().Verify(i);
      return search;
    } catch (const internal::DamagedError& e) {
      search->SetAside(e.what());
    }
  }
  return nullptr;
}

}  // namespace ddp::test

#endif  // DDPRUN_TESTS_UNIT_WORKER_SUPPORT_NEWEST_CHECKPOINT_H_
