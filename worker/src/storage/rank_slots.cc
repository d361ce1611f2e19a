#include "worker/src/storage/rank_slots.h"

#include <ddp/errors.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "worker/src/base/file_errors.h"

namespace ddp::internal {
std::string RankSlots::PathOf(const std::string& folder, int rank) {
  return folder + "/rank-" + std::to_string(rank) + ".slots";
}

void RankSlots::Close() {
  if (map_ != nullptr) munmap(map_, size_);
  map_ = nullptr;
  file_.reset();
}

void RankSlots::Open(std::size_t bytes) {
  Close();
  size_ = RankPlaces::BytesFor(bytes);
  const auto size = static_cast<off_t>(size_);
  file_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat status = {};
  if (!file_.valid() || fstat(file_.get(), &status) != 0) ThrowErrno("open", path_);
  if (status.st_size != size) {
    // A new file, so that mappings of readers stay valid.
    const std::string temporary = path_ + ".tmp";
    file_.reset(open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file_.valid()) ThrowErrno("make", temporary);
    // Allocates now, so that a lack of memory is an error here and not a SIGBUS later.
    if (const int error = posix_fallocate(file_.get(), 0, size)) {
      errno = error;
      ThrowErrno("get memory for", temporary);
    }
    if (rename(temporary.c_str(), path_.c_str()) != 0) ThrowErrno("rename", temporary);
  }
  Map();
}

// False: the rank has no file.
bool RankSlots::OpenAsItIs() {
  Close();
  file_.reset(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  if (!file_.valid() && errno == ENOENT) return false;
  struct stat status = {};
  if (!file_.valid() || fstat(file_.get(), &status) != 0) ThrowErrno("open", path_);
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ < RankPlaces::BytesFor(0)) return false;
  Map();
  return true;
}

void RankSlots::Map() {
  void* const map = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (map == MAP_FAILED) ThrowErrno("map", path_);
  map_ = static_cast<std::byte*>(map);
}

void RankSlots::Put(const StampedStep& step, std::string_view bytes) {
  if (map_ == nullptr || bytes.size() > RankPlaces(map_, size_).room()) Open(bytes.size());
  RankPlaces(map_, size_).Put(step, bytes);
}

void RankSlots::Keep(const StampedStep& state) {
  if (map_ != nullptr || OpenAsItIs()) RankPlaces(map_, size_).Keep(state);
}

RankSlots::View::View(const std::string& folder, int rank) {
  const ddprun::UniqueFd file(open(PathOf(folder, rank).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status = {};
  if (!file.valid() || fstat(file.get(), &status) != 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < RankPlaces::BytesFor(0)) return;
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) return;
  map_ = static_cast<std::byte*>(map);
  size_ = size;
}

RankSlots::View::~View() {
  if (map_ != nullptr) munmap(map_, size_);
}

std::optional<std::string> RankSlots::View::Find(const StampedStep& step) const {
  return map_ == nullptr ? std::nullopt : RankPlaces(map_, size_).Find(step);
}

bool RankSlots::View::HasAnyOf(std::int64_t generation) const {
  return map_ != nullptr && RankPlaces(map_, size_).HasAnyOf(generation);
}

}  // namespace ddp::internal
