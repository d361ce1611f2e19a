// The places of a rank's own state in memory that others read when the rank is dead: what
// RankSlots keeps in a file. Pure: no file, no lock.
//
// A rank writes the place of step k before it enters the last collective of that step, and uses
// three places in turns. Why three: where some rank has finished step k, no rank is further than in
// the last collective of step k + 2, because it needs all ranks for that of step k + 1. So no rank
// has more than the steps k, k + 1 and k + 2, and the last one may be half written.
#ifndef DDPRUN_WORKER_SRC_STORAGE_RANK_PLACES_H_
#define DDPRUN_WORKER_SRC_STORAGE_RANK_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::internal {

// A step of one generation: another generation may have made a step of the same number.
struct StampedStep {
  std::int64_t generation = 0;
  std::int64_t step = 0;
  bool operator==(const StampedStep&) const = default;
};

// A view of memory that its user owns, and that is zero at first. One thread writes.
class RankPlaces {
 public:
  // Memory for places of so many bytes each.
  static std::size_t BytesFor(std::size_t room);

  RankPlaces(std::byte* memory, std::size_t bytes);

  // Bytes that fit into a place.
  std::size_t room() const { return room_; }

  // The place of this step, and what it holds, is not whole from here on.
  void Begin(const StampedStep& step);
  // Writes it. `bytes` fit.
  void Put(const StampedStep& step, std::string_view bytes);

  // What was put for that step, if it is whole.
  std::optional<std::string> Find(const StampedStep& step) const;
  // For any step of it.
  bool HasAnyOf(std::int64_t generation) const;

 private:
  struct Place;
  Place* PlaceOf(std::int64_t step) const;

  std::byte* const memory_;
  const std::size_t room_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_RANK_PLACES_H_
