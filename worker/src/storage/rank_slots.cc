#include "worker/src/storage/rank_slots.h"

#include <ddp/errors.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "worker/src/storage/file_errors.h"

namespace ddp::internal {
namespace {

// A file is two of these, each with the bytes behind it. The order of bytes is the machine's.
struct Place {
  std::atomic<std::uint64_t> whole;  // kWhole, or it is being written
  std::int64_t generation;
  std::int64_t step;
  std::uint64_t size;  // of the bytes that are used
};
constexpr std::uint64_t kWhole = 0x31746F6C732D7264;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

Place* PlaceOf(std::byte* map, std::size_t room, std::int64_t step) {
  const std::size_t at = step % 2 == 0 ? 0 : sizeof(Place) + room;
  return reinterpret_cast<Place*>(map + at);
}

std::size_t Rounded(std::size_t bytes) {
  constexpr std::size_t kUnit = alignof(Place) < 64 ? 64 : alignof(Place);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

std::string RankSlots::PathOf(const std::string& folder, int rank) {
  return folder + "/rank-" + std::to_string(rank) + ".slots";
}

void RankSlots::Close() {
  if (map_ != nullptr) munmap(map_, 2 * (sizeof(Place) + room_));
  map_ = nullptr;
  file_.reset();
}

void RankSlots::Open(std::size_t bytes) {
  Close();
  room_ = Rounded(bytes);
  const auto size = static_cast<off_t>(2 * (sizeof(Place) + room_));
  file_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat status = {};
  if (!file_.valid() || fstat(file_.get(), &status) != 0) ThrowErrno("open", path_);
  if (status.st_size != size) {
    // A new one: what a reader has mapped stays as it was.
    const std::string temporary = path_ + ".tmp";
    file_.reset(open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file_.valid()) ThrowErrno("make", temporary);
    // Now, by an error, rather than later, by SIGBUS.
    if (const int error = posix_fallocate(file_.get(), 0, size)) {
      errno = error;
      ThrowErrno("get memory for", temporary);
    }
    if (rename(temporary.c_str(), path_.c_str()) != 0) ThrowErrno("rename", temporary);
  }
  void* const map = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE,
                         MAP_SHARED, file_.get(), 0);
  if (map == MAP_FAILED) ThrowErrno("map", path_);
  map_ = static_cast<std::byte*>(map);
}

void RankSlots::Put(const StampedStep& step, std::string_view bytes) {
  if (map_ == nullptr || bytes.size() > room_) Open(bytes.size());
  Place* const place = PlaceOf(map_, room_, step.step);
  place->whole.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // for whoever looks when this one is dead
  place->generation = step.generation;
  place->step = step.step;
  place->size = bytes.size();
  std::memcpy(reinterpret_cast<char*>(place + 1), bytes.data(), bytes.size());
  place->whole.store(kWhole, std::memory_order_release);
}

RankSlots::View::View(const std::string& folder, int rank) {
  const ddprun::UniqueFd file(open(PathOf(folder, rank).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (!file.valid() || fstat(file.get(), &status) != 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < 2 * sizeof(Place)) return;
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) return;
  map_ = static_cast<std::byte*>(map);
  room_ = size / 2 - sizeof(Place);
}

RankSlots::View::~View() {
  if (map_ != nullptr) munmap(map_, 2 * (sizeof(Place) + room_));
}

std::optional<std::string> RankSlots::View::Find(const StampedStep& step) const {
  if (map_ == nullptr) return std::nullopt;
  const Place* const place = PlaceOf(map_, room_, step.step);
  const bool whole = place->whole.load(std::memory_order_acquire) == kWhole;
  if (!whole || place->size > room_ || step != StampedStep{place->generation, place->step}) {
    return std::nullopt;
  }
  return std::string(reinterpret_cast<const char*>(place + 1), place->size);
}

bool RankSlots::View::HasAnyOf(std::int64_t generation) const {
  if (map_ == nullptr) return false;
  return PlaceOf(map_, room_, 0)->generation == generation ||
         PlaceOf(map_, room_, 1)->generation == generation;
}

}  // namespace ddp::internal
