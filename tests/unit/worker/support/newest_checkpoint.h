// Finds the checkpoint from which a training would continue.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_NEWEST_CHECKPOINT_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_NEWEST_CHECKPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/src/base/xxh3.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/checkpoint_folder.h"

namespace ddp::test {

// The bytes of a tensor of `file`.
inline std::string Content(const internal::SafetensorsFile& file,
                           const internal::StoredTensor& tensor) {
  std::string bytes(tensor.size, '\0');
  file.content()->Read(tensor.offset, bytes.data(), bytes.size());
  return bytes;
}

// Throws DamagedError unless all tensors of `file` match the hashes in its header.
inline void Verify(const internal::SafetensorsFile& file) {
  for (const internal::StoredTensor& tensor : file.tensors()) {
    const std::string bytes = Content(file, tensor);
    if (internal::HashText(internal::Xxh3(bytes.data(), bytes.size())) == tensor.hash) continue;
    throw internal::DamagedError("tensor " + tensor.info.name + " has a wrong hash");
  }
}

// A search that stands at the newest file of `folder` with correct hashes; null: there is none.
// Sets damaged files aside.
inline std::unique_ptr<internal::CheckpointSearch> FindNewest(const std::string& folder) {
  auto search = std::make_unique<internal::CheckpointSearch>(0, std::vector<std::string>{folder});
  while (search->Next() == internal::CheckpointSearch::Result::kFound) {
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
