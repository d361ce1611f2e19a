// The part of the state that differs between ranks at the end of a step, generators and buffers, in
// a folder in memory (DDPRUN_SNAPSHOT_DIR). It outlives the rank, so that the successor of a dead
// rank continues with the rank's own state.
//
// Each rank has a file, in which it writes three places in turns and keeps two; RankPlaces explains
// why.
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

// One thread at a time.
class RankSlots {
 public:
  RankSlots(std::string folder, int rank) : path_(PathOf(folder, rank)) {}
  ~RankSlots() { Close(); }
  RankSlots(const RankSlots&) = delete;
  RankSlots& operator=(const RankSlots&) = delete;

  // Writes the place of this step. If `bytes` do not fit, replaces the file and loses the other
  // places. Throws CheckpointError.
  void Put(const StampedStep& step, std::string_view bytes);
  // Training begins with `state`, before the first Put(): RankPlaces::Keep(), if the rank has a
  // file. Throws CheckpointError.
  void Keep(const StampedStep& state);

  // A reader's view of the file of a rank.
  class View {
   public:
    View(const std::string& folder, int rank);
    ~View();
    View(const View&) = delete;
    View& operator=(const View&) = delete;

    // The bytes of that step, if whole.
    std::optional<std::string> Find(const StampedStep& step) const;
    // The rank has stored a step of that generation: it was on this node then.
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
