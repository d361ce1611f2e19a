// Stores the part of the state that differs between ranks at the end of a step (generators and
// buffers) in a folder in memory (DDPRUN_SNAPSHOT_DIR). The folder outlives the rank, so the
// successor of a dead rank continues with the rank's own state.
//
// Each rank has a file. It writes three places there in turn and keeps two more. RankPlaces
// explains why.
#ifndef DDPRUN_WORKER_SRC_STORAGE_RANK_SLOTS_H_
#define DDPRUN_WORKER_SRC_STORAGE_RANK_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "worker/contract/unique_fd.h"
#include "worker/src/storage/rank_places.h"

namespace ddp::internal {

// Only one thread at a time may use it.
class RankSlots {
 public:
  RankSlots(std::string folder, int rank) : path_(PathOf(folder, rank)) {}
  ~RankSlots() { Close(); }
  RankSlots(const RankSlots&) = delete;
  RankSlots& operator=(const RankSlots&) = delete;

  // Writes the place of this step. If the file has a wrong size for `bytes`, replaces the file; the
  // other places are lost. Throws CheckpointError.
  void Put(const StampedStep& step, std::string_view bytes);
  // Call it before the first Put(), when training begins with `state`: calls RankPlaces::Keep() if
  // the rank has a file. Throws CheckpointError.
  void Keep(const StampedStep& state);

  // How a process reads the file of any rank.
  class View {
   public:
    View(const std::string& folder, int rank);
    ~View();
    View(const View&) = delete;
    View& operator=(const View&) = delete;

    // The bytes of that step, if complete.
    std::optional<std::string> Find(const StampedStep& step) const;
    // RankPlaces::HasAnyOf(). True: the rank was on this node in that generation.
    bool HasAnyOf(std::int64_t generation) const;

   private:
    std::byte* map_ = nullptr;
    std::size_t size_ = 0;
  };

 private:
  static std::string PathOf(const std::string& folder, int rank);
  void Open(std::size_t bytes);
  bool OpenAsItIs();
  void Map();
  void Close();

  const std::string path_;
  ddprun::UniqueFd file_;
  std::byte* map_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_RANK_SLOTS_H_
