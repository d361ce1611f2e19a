// The places for a rank's own state in memory that other ranks read when the rank is dead;
// RankSlots keeps them in a file. Pure: no file, no lock.
//
// A rank writes the place of step k before it enters the last collective of step k, and uses three
// places in turns. Three are enough: if any rank has finished step k, no rank is beyond the last
// collective of step k + 2, because the one of step k + 1 needs all ranks. So a rank holds at most
// the steps k, k + 1 and k + 2, and the last one may be half written.
#ifndef DDPRUN_WORKER_SRC_STORAGE_RANK_PLACES_H_
#define DDPRUN_WORKER_SRC_STORAGE_RANK_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::internal {

// A step of one generation. Another generation may have a step of the same number.
struct StampedStep {
  std::int64_t generation = 0;
  std::int64_t step = 0;
  bool operator==(const StampedStep&) const = default;
};

// A view of memory that the caller owns and that is zero at first. One thread writes.
class RankPlaces {
 public:
  // The memory for places of `room` bytes each.
  static std::size_t BytesFor(std::size_t room);

  RankPlaces(std::byte* memory, std::size_t bytes);

  // Bytes that fit into a place.
  std::size_t room() const { return room_; }

  // Marks the place of this step as not whole; its old contents are lost.
  void Begin(const StampedStep& step);
  // Writes the place. `bytes` must fit.
  void Put(const StampedStep& step, std::string_view bytes);

  // The bytes that were put for that step, if whole.
  std::optional<std::string> Find(const StampedStep& step) const;
  // Something was put for any step of the generation.
  bool HasAnyOf(std::int64_t generation) const;

 private:
  struct Place;
  Place* PlaceOf(std::int64_t step) const;

  std::byte* const memory_;
  const std::size_t room_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_RANK_PLACES_H_
