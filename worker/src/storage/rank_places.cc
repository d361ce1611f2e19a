#include "worker/src/storage/rank_places.h"

#include <atomic>
#include <cstring>
#include <string>

namespace ddp::internal {
namespace {

constexpr std::size_t kInTurns = 3;
constexpr std::size_t kKept = 2;
constexpr std::size_t kPlaces = kInTurns + kKept;
constexpr std::uint64_t kWhole = 0x32746F6C732D7264;

std::size_t Rounded(std::size_t bytes) {
  constexpr std::size_t kUnit = 64;
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

// A place. Its bytes follow it in memory. Numbers have the byte order of the machine.
struct RankPlaces::Place {
  std::atomic<std::uint64_t> whole;  // kWhole if complete; else it is being written
  std::int64_t generation;
  std::int64_t step;
  std::uint64_t size;  // number of bytes in use

  // Called before anything else is written: if the process dies while it writes, the place stays
  // incomplete.
  void Begin(const StampedStep& stamp) {
    whole.exchange(0, std::memory_order_acq_rel);
    generation = stamp.generation;
    step = stamp.step;
  }
  void Write(const StampedStep& stamp, std::string_view bytes) {
    Begin(stamp);
    size = bytes.size();
    std::memcpy(reinterpret_cast<char*>(this + 1), bytes.data(), bytes.size());
    whole.store(kWhole, std::memory_order_release);
  }
  // nullopt: this place does not hold that step completely.
  std::optional<std::string_view> Find(const StampedStep& stamp, std::size_t room) const {
    const bool is_whole = whole.load(std::memory_order_acquire) == kWhole;
    if (!is_whole || size > room || stamp != StampedStep{generation, step}) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(this + 1), size);
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::size_t RankPlaces::BytesFor(std::size_t room) {
  return kPlaces * (sizeof(Place) + Rounded(room));
}

RankPlaces::RankPlaces(std::byte* memory, std::size_t bytes)
    : memory_(memory), room_(bytes / kPlaces - sizeof(Place)) {}

RankPlaces::Place* RankPlaces::At(std::size_t number) const {
  return reinterpret_cast<Place*>(memory_ + number * (sizeof(Place) + room_));
}

RankPlaces::Place* RankPlaces::PlaceOf(std::int64_t step) const {
  return At(static_cast<std::size_t>(step) % kInTurns);
}

RankPlaces::Place* RankPlaces::KeptPlaceOf(std::int64_t step) const {
  return At(kInTurns + static_cast<std::size_t>(step) % kKept);
}

void RankPlaces::Begin(const StampedStep& step) { PlaceOf(step.step)->Begin(step); }

void RankPlaces::Put(const StampedStep& step, std::string_view bytes) {
  PlaceOf(step.step)->Write(step, bytes);
}

void RankPlaces::Keep(const StampedStep& state) {
  for (const std::int64_t number : {state.step - 1, state.step}) {
    const StampedStep step{state.generation, number};
    const auto bytes = PlaceOf(number)->Find(step, room_);
    if (bytes) KeptPlaceOf(number)->Write(step, *bytes);
  }
}

std::optional<std::string> RankPlaces::Find(const StampedStep& step) const {
  for (const Place* const place : {PlaceOf(step.step), KeptPlaceOf(step.step)}) {
    if (const auto bytes = place->Find(step, room_)) return std::string(*bytes);
  }
  return std::nullopt;
}

// A place that was never written seems to belong to generation 0, because the memory is zero at
// first.
bool RankPlaces::HasAnyOf(std::int64_t generation) const {
  for (std::size_t i = 0; i < kInTurns; ++i) {
    if (At(i)->generation == generation) return true;
  }
  return false;
}

}  // namespace ddp::internal
