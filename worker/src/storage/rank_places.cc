#include "worker/src/storage/rank_places.h"

#include <atomic>
#include <cstring>
#include <string>

namespace ddp::internal {
namespace {

constexpr std::size_t kPlaces = 3;
constexpr std::uint64_t kWhole = 0x31746F6C732D7264;

std::size_t Rounded(std::size_t bytes) {
  constexpr std::size_t kUnit = 64;
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

// Its bytes follow. Byte order of the machine.
struct RankPlaces::Place {
  std::atomic<std::uint64_t> whole;  // kWhole; else it is being written
  std::int64_t generation;
  std::int64_t step;
  std::uint64_t size;  // used bytes
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::size_t RankPlaces::BytesFor(std::size_t room) {
  return kPlaces * (sizeof(Place) + Rounded(room));
}

RankPlaces::RankPlaces(std::byte* memory, std::size_t bytes)
    : memory_(memory), room_(bytes / kPlaces - sizeof(Place)) {}

RankPlaces::Place* RankPlaces::PlaceOf(std::int64_t step) const {
  const std::size_t number = static_cast<std::size_t>(step) % kPlaces;
  return reinterpret_cast<Place*>(memory_ + number * (sizeof(Place) + room_));
}

void RankPlaces::Begin(const StampedStep& step) {
  Place* const place = PlaceOf(step.step);
  // First: a process that dies in the middle leaves a place that is not whole.
  place->whole.exchange(0, std::memory_order_acq_rel);
  place->generation = step.generation;
  place->step = step.step;
}

void RankPlaces::Put(const StampedStep& step, std::string_view bytes) {
  Begin(step);
  Place* const place = PlaceOf(step.step);
  place->size = bytes.size();
  std::memcpy(reinterpret_cast<char*>(place + 1), bytes.data(), bytes.size());
  place->whole.store(kWhole, std::memory_order_release);
}

std::optional<std::string> RankPlaces::Find(const StampedStep& step) const {
  const Place* const place = PlaceOf(step.step);
  const bool whole = place->whole.load(std::memory_order_acquire) == kWhole;
  if (!whole || place->size > room_ || step != StampedStep{place->generation, place->step}) {
    return std::nullopt;
  }
  return std::string(reinterpret_cast<const char*>(place + 1), place->size);
}

// A place that was never written belongs to generation 0, because the memory is zero at first.
bool RankPlaces::HasAnyOf(std::int64_t generation) const {
  for (std::size_t i = 0; i < kPlaces; ++i) {
    if (PlaceOf(static_cast<std::int64_t>(i))->generation == generation) return true;
  }
  return false;
}

}  // namespace ddp::internal
