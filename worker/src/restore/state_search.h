// Finds the state that a training is to go on from: the same for all ranks.
#ifndef DDPRUN_WORKER_SRC_RESTORE_STATE_SEARCH_H_
#define DDPRUN_WORKER_SRC_RESTORE_STATE_SEARCH_H_

#include <ddp/context.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "worker/src/formats/input_file.h"
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
  std::uint64_t offset = 0;     // of the first tensor's bytes in the file
  bool provisional = false;     // newer files were put off: StateSearch::Accept()
  // For the source and for the ranks of its node that can open it; elsewhere null.
  std::shared_ptr<InputFile> file;
};

// Where to look, on the source; the others need to know nothing but who that is, and list their own
// folders.
struct WhereToLook {
  int source = 0;
  std::vector<std::string> folders;  // see CheckpointSearch
  std::int64_t highest_step = std::numeric_limits<std::int64_t>::max();
  std::function<bool(const Metadata&)> allows = [](const Metadata&) { return true; };
  CheckpointSearch::FolderErrors folder_errors = CheckpointSearch::FolderErrors::kCount;
  std::chrono::milliseconds patience{0};  // how long to try what is unavailable
  DamagedFiles damaged{};
  // Where nothing is found, and training would begin at step 0: damaged files of the other nodes
  // count as well.
  bool looks_everywhere = false;
};

// All functions, the constructor too, are collectives. What may hold a newer state than any other
// and is unavailable is tried again, with pauses, for `patience`, which a warning says; EACCES and
// EPERM are not. Then StateUnreadableError is thrown on all ranks.
class StateSearch {
 public:
  // The folders are listed on each node.
  StateSearch(const Context& ctx, WhereToLook where);

  // The newest state that is allowed and has not been returned yet; nothing if there is none.
  // Whether its tensors have the right hashes whoever loads it must see, and call SetAside() if
  // they have not.
  std::optional<FoundState> Next();

  // The last one was not what its hashes say.
  void SetAside(const std::string& reason);

  // Some of the last one's bytes could not be read.
  void PutOff(const UnavailableError& error);

  // The last one was read whole by all. False: a newer one that was put off is not damaged; to be
  // asked where the state is provisional.
  bool Accept();

  // After Next() had nothing: what there is and cannot be loaded, each with the reason.
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  bool Leads() const { return ctx_.rank() == where_.source; }
  void ListFolders();
  // On a node without the source: its damaged files, where none is whole.
  nlohmann::json LookForDamaged();
  // Calls `look` on the source, and on each node's local rank 0, until nobody has to wait. Returns
  // what each rank said.
  std::vector<nlohmann::json> AskNodes(const std::function<nlohmann::json()>& look);
  nlohmann::json Propose();
  // What all ranks hear of it: to wait, which has been done, or that it is over.
  nlohmann::json Postpone(const Unavailable& what);

  const Context& ctx_;
  const WhereToLook where_;
  std::optional<CheckpointSearch> files_;  // the source's
  std::vector<std::string> rejected_;

  // Of a rank that waits.
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
  std::chrono::milliseconds pause_{0};
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_STATE_SEARCH_H_
