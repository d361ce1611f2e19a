// Finds the state that a training is to go on from: the same for all ranks.
#ifndef DDPRUN_WORKER_SRC_STATE_SEARCH_H_
#define DDPRUN_WORKER_SRC_STATE_SEARCH_H_

#include <ddp/context.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/src/safetensors.h"

namespace ddp::internal {

// A whole state, its hashes checked. But for `file`, the same on all ranks.
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
  // On the source, and on the ranks of its node that can read the same file; else null.
  std::unique_ptr<SafetensorsFile> file;
};

// Where to look, on the source; the others need to know nothing but who that is.
struct WhereToLook {
  int source = 0;
  std::vector<std::string> folders;  // see CheckpointSearch
  std::int64_t highest_step = std::numeric_limits<std::int64_t>::max();
  std::function<bool(const Metadata&)> allows = [](const Metadata&) { return true; };
};

// The newest state there that is whole and allowed; nothing if there is none. The ranks of the
// source's node check the hashes together. What is damaged is set aside and the next older one
// taken: CheckpointSearch. A collective. Throws AgreedError where a folder cannot be read.
std::optional<FoundState> FindState(const Context& ctx, const WhereToLook& where);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_SEARCH_H_
