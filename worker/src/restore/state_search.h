// Finds the state that a training is to go on from: the same for all ranks.
#ifndef DDPRUN_WORKER_SRC_RESTORE_STATE_SEARCH_H_
#define DDPRUN_WORKER_SRC_RESTORE_STATE_SEARCH_H_

#include <ddp/context.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "worker/src/formats/mapped_file.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/checkpoint_folder.h"

namespace ddp::internal {

// But for `file`, the same on all ranks.
struct FoundState {
  struct Tensor {
    TensorInfo info;
    std::string hash;  // as HashText()
    std::size_t bytes = 0;
  };

  int source = 0;    // the rank that has it
  std::string path;  // on the source's node
  Metadata metadata;
  std::vector<Tensor> tensors;  // in the order of their bytes
  // The file, for the source and for the ranks of its node that can read it; elsewhere nothing.
  MappedFile file;
  std::size_t offset = 0;  // of the first tensor's bytes in it

  // The tensors' bytes; null where there is no file.
  const std::byte* bytes() const {
    if (file.bytes().empty()) return nullptr;
    return reinterpret_cast<const std::byte*>(file.bytes().data()) + offset;
  }
};

// Where to look, on the source; the others need to know nothing but who that is.
struct WhereToLook {
  int source = 0;
  std::vector<std::string> folders;  // see CheckpointSearch
  std::int64_t highest_step = std::numeric_limits<std::int64_t>::max();
  std::function<bool(const Metadata&)> allows = [](const Metadata&) { return true; };
};

// All functions, the constructor too, are collectives.
class StateSearch {
 public:
  // Throws AgreedError where a folder cannot be read.
  StateSearch(const Context& ctx, WhereToLook where);

  // The newest state that is allowed and has not been returned yet; nothing if there is none.
  // Whether its tensors have the right hashes whoever loads it must see, and call SetAside() if
  // they have not. Only the last one there is is checked here, by the ranks of the source's node
  // together: it must not be written over anything in vain.
  std::optional<FoundState> Next();

  // The last one was not what its hashes say.
  void SetAside(const std::string& reason);

 private:
  bool Leads() const { return ctx_.rank() == where_.source; }
  std::string Propose();
  std::string Check(const FoundState& found) const;

  const Context& ctx_;
  const WhereToLook where_;
  std::optional<CheckpointSearch> files_;  // the source's
  MappedFile mapped_;                      // likewise, the one that it proposes
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_STATE_SEARCH_H_
