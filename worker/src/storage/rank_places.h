// The places in memory for a rank's own state, which other ranks read when the rank is dead or has
// left. RankSlots keeps the memory in a file. Pure code: no file, no lock.
//
// A rank writes the place of step k before it enters the last collective of step k, and uses three
// places in turn. Three are enough. Let k be the last step that the slowest rank has finished. No
// rank is beyond the last collective of step k + 2, because that collective needs the slowest rank,
// too. So a rank's places hold at most the steps k, k + 1 and k + 2, and the last one may be half
// written.
//
// A generation may end before it has made a state newer than the one with which it began. Then the
// next generation begins with the same state again, but later steps have overwritten the places of
// that state. So there are two more places: one for the state with which training began, and one
// for the step before. Training resumes from that earlier step if another node holds it and the
// node that held the newer one is lost.
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

// A step of one generation. Another generation may have a step with the same number.
struct StampedStep {
  std::int64_t generation = 0;
  std::int64_t step = 0;
  bool operator==(const StampedStep&) const = default;
};

// A view of memory that the caller owns. The memory must be zero at first. Only one thread may
// write.
class RankPlaces {
 public:
  // How much memory is needed for places of `room` bytes each.
  static std::size_t BytesFor(std::size_t room);

  RankPlaces(std::byte* memory, std::size_t bytes);

  // How many bytes fit into a place.
  std::size_t room() const { return room_; }

  // Marks the place of this step as incomplete. Its old contents are lost.
  void Begin(const StampedStep& step);
  // Writes `bytes` to the place of this step. They must fit.
  void Put(const StampedStep& step, std::string_view bytes);

  // Call it before the first Put() of a generation, when training begins with `state`. Keeps the
  // bytes of that step and of the step before it, from the generation that made the state, until
  // training begins with a state of another generation.
  void Keep(const StampedStep& state);

  // The bytes that were put for that step. nullopt: they are not complete, or not there.
  std::optional<std::string> Find(const StampedStep& step) const;
  // True if one of the three places in turn is of that generation. An unused place counts as one of
  // generation 0.
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
