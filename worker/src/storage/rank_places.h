// The places for a rank's own state in memory that other ranks read when the rank is dead;
// RankSlots keeps them in a file. Pure: no file, no lock.
//
// A rank writes the place of step k before it enters the last collective of step k, and uses three
// places in turns. Three are enough: if any rank has finished step k, no rank is beyond the last
// collective of step k + 2, because the one of step k + 1 needs all ranks. So a rank holds at most
// the steps k, k + 1 and k + 2, and the last one may be half written.
//
// A generation may end before there is a newer state than the one it began with. The next one then
// begins with that state again, after its places were used for later steps. So there are two places
// more, for the state with which training began and for the step before: another node may hold that
// one, and it is resumed if the node that held the newer one is lost.
//
//     generation 4   ... 15  16 ✗        places 15 16 17
//     generation 5       16 → 17 18 19 ✗        18 19 17, kept 15 16
//     generation 6       16 → ...
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

  // Training begins with `state`: keeps what was put for that step and for the one before it in the
  // generation that made the state, until training begins with a state of another generation.
  // Called before the first Put() of a generation.
  void Keep(const StampedStep& state);

  // The bytes that were put for that step, if whole.
  std::optional<std::string> Find(const StampedStep& step) const;
  // Something was put for any step of the generation, which is the newest one of this rank here.
  bool HasAnyOf(std::int64_t generation) const;

 private:
  struct Place;
  Place* PlaceOf(std::int64_t step) const;
  Place* KeptPlaceOf(std::int64_t step) const;
  Place* At(std::size_t number) const;

  std::byte* const memory_;
  const std::size_t room_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_RANK_PLACES_H_
