// Finds the state from which a training continues. All ranks find the same one.
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

// The same on all ranks, except `file`.
struct FoundState {
  struct Tensor {
    TensorInfo info;
    std::string hash;  // as HashText() writes it
    std::size_t bytes = 0;
  };

  int source = 0;    // the rank that has the state
  std::string path;  // on the source's node
  Metadata metadata;
  std::vector<Tensor> tensors;  // in the order of their bytes
  std::uint64_t offset = 0;     // of the first tensor's bytes in the file
  bool provisional = false;     // newer files were put off (see PutOff()): call Accept()
  // Set on the source, and on ranks of its node that can open the file. Otherwise null.
  std::shared_ptr<InputFile> file;
};

// Where to look for states. `allows` and `damaged` count only on the source.
struct WhereToLook {
  int source = 0;
  std::vector<std::string> folders;  // see CheckpointSearch
  std::int64_t lowest_step = 0;
  std::int64_t highest_step = std::numeric_limits<std::int64_t>::max();
  std::function<bool(const Metadata&)> allows = [](const Metadata&) { return true; };
  CheckpointSearch::FolderErrors folder_errors = CheckpointSearch::FolderErrors::kCount;
  std::chrono::milliseconds patience{0};  // how long to retry a file that cannot be read now
  DamagedFiles damaged{};
  // If nothing is found and training would begin at step 0, StateSearch::rejected() also lists the
  // damaged files of other nodes.
  bool looks_everywhere = false;
  // With looks_everywhere: rejected() also lists a complete file that only another node has.
  bool counts_whole_files = false;
};

// All ranks call the same functions in the same order. The constructor, Next() and Accept() may be
// collectives. If a file or folder that may hold a newer state cannot be read now, the search warns
// and tries again, with pauses, until `patience` has passed. Then all ranks throw
// StateUnreadableError. After EACCES or EPERM they throw it at once.
class StateSearch {
 public:
  // With FolderErrors::kCount, checks on each node that the folders can be listed.
  StateSearch(const Context& ctx, WhereToLook where);

  // The newest allowed state that was not returned yet. nullopt: none. The caller must check the
  // tensors' hashes while it loads them, and call SetAside() if they differ.
  std::optional<FoundState> Next();

  // Call it if the last state does not match its hashes.
  void SetAside(const std::string& reason);

  // Call it if some bytes of the last state could not be read: CheckpointSearch::PutOff().
  void PutOff(const UnavailableError& error);

  // Call it for a provisional state when all ranks have read it completely. False: a newer file
  // that was put off may be good; call Next() again.
  bool Accept();

  // After Next() returned nullopt: the states that cannot be loaded, each with the reason.
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  bool Leads() const { return ctx_.rank() == where_.source; }
  void ListFolders();
  // For AskNodes(). Returns this node's damaged files if it has no complete file; with
  // counts_whole_files, returns its complete file if it has one. Null on the source.
  nlohmann::json LookForDamaged();
  // Calls `look` on the source and on each node's local rank 0, until none of them has to wait.
  // Returns the answer of each rank.
  std::vector<nlohmann::json> AskNodes(const std::function<nlohmann::json()>& look);
  nlohmann::json Propose();
  // The message to all ranks: look again (this function has already waited), or give up.
  nlohmann::json Postpone(const Unavailable& what);

  const Context& ctx_;
  const WhereToLook where_;
  std::optional<CheckpointSearch> files_;  // only on the source
  std::vector<std::string> rejected_;

  // Only on a rank that waits:
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
  std::chrono::milliseconds pause_{0};
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_STATE_SEARCH_H_
