#include "worker/src/storage/snapshot_slots.h"

#include <ddp/errors.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "worker/contract/memory_room.h"
#include "worker/src/base/file_errors.h"
#include "worker/src/formats/safetensors.h"
#include "worker/src/storage/checkpoint_name.h"

namespace ddp::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeaderBytes = 64 << 10;  // at first; more if the texts are longer
// Memory that must stay free besides the slots.
constexpr std::uint64_t kSpareBytes = 64 << 20;

std::size_t Pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Faults in all pages now, so that nobody waits for them one by one later.
void Touch(std::byte* map, std::size_t size) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(map, size, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (std::size_t at = 0; at < size; at += kPage) {
    volatile std::byte* const byte = map + at;
    *byte = *byte;
  }
}

}  // namespace

SnapshotSlots::SnapshotSlots(std::string folder, std::optional<std::int64_t> keep_step)
    : folder_(std::move(folder)) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].temporary = folder_ + "/slot-" + std::to_string(i) + ".tmp";
    slots_[i].path = slots_[i].temporary;
  }
  // Snapshots by step. The snapshot to keep goes to the last slot, which counts as the newest.
  std::multimap<std::int64_t, std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.ends_with(".safetensors")) found.emplace(StepOf(name).value_or(-1), entry->path());
  }
  if (keep_step) {
    auto kept = found.upper_bound(*keep_step);
    if (kept != found.begin() && (--kept)->first >= 0) {
      slots_[newest_].path = kept->second;
      found.erase(kept);
    }
  }
  for (const auto& [step, path] : found) {
    bool taken = false;
    for (Slot& slot : slots_) {
      if (taken || slot.path != slot.temporary || fs::exists(slot.temporary, error)) continue;
      taken = rename(path.c_str(), slot.temporary.c_str()) == 0;  // not needed, or unusable
    }
    if (!taken) unlink(path.c_str());
  }
}

SnapshotSlots::~SnapshotSlots() {
  for (Slot& slot : slots_) Close(&slot);
}

void SnapshotSlots::Open(Slot* slot) {
  if (slot->file.valid()) return;
  slot->file = ddprun::UniqueFd(open(slot->path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!slot->file.valid()) ThrowErrno("open", slot->path);
}

void SnapshotSlots::Close(Slot* slot) {
  if (slot->map != nullptr) munmap(slot->map, slot->size);
  slot->map = nullptr;
  slot->file = ddprun::UniqueFd();
}

// Keeps the contents if they are a state of `bytes` bytes.
void SnapshotSlots::Fit(Slot* slot, std::size_t bytes) {
  Open(slot);
  struct stat status = {};
  if (fstat(slot->file.get(), &status) != 0) ThrowErrno("look at", slot->path);
  const auto size = static_cast<std::size_t>(status.st_size);
  const bool fits = size >= bytes + kHeaderBytes && (size - bytes) % kPage == 0;
  Resize(slot, fits ? size - bytes : kHeaderBytes, bytes);
}

void SnapshotSlots::Resize(Slot* slot, std::size_t header, std::size_t bytes) {
  const std::size_t size = header + bytes;
  if (slot->map != nullptr) munmap(slot->map, slot->size);
  slot->map = nullptr;
  // Allocates now, so that a lack of memory is an error here and not a SIGBUS later.
  if (const int error = posix_fallocate(slot->file.get(), 0, static_cast<off_t>(size))) {
    errno = error;
    ThrowErrno("get " + std::to_string(size >> 20) + " MiB of memory for", slot->path);
  }
  if (ftruncate(slot->file.get(), static_cast<off_t>(size)) != 0) ThrowErrno("resize", slot->path);
  void* const map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, slot->file.get(), 0);
  if (map == MAP_FAILED) ThrowErrno("map", slot->path);
  slot->map = static_cast<std::byte*>(map);
  slot->size = size;
  slot->header = header;
  Touch(slot->map, size);
}

void SnapshotSlots::Hide(Slot* slot) {
  if (!slot->whole()) return;
  if (rename(slot->path.c_str(), slot->temporary.c_str()) != 0) ThrowErrno("rename", slot->path);
  slot->path = slot->temporary;
}

bool SnapshotSlots::Fits(std::size_t bytes) const {
  return Older().map != nullptr && Older().room() == bytes;
}

void SnapshotSlots::Prepare(std::size_t bytes) {
  std::uint64_t needed = kSpareBytes;
  for (Slot& slot : slots_) {
    Open(&slot);
    struct stat status = {};
    if (fstat(slot.file.get(), &status) != 0) ThrowErrno("look at", slot.path);
    const std::uint64_t there = static_cast<std::uint64_t>(status.st_blocks) * 512;
    const std::uint64_t wanted = kHeaderBytes + bytes;
    if (wanted > there) needed += wanted - there;
  }
  ddprun::MemoryPlace place;
  place.root = folder_;
  const std::uint64_t room = ddprun::MemoryRoom(place);
  if (room < needed) {
    throw CheckpointError("two snapshots of " + std::to_string(bytes >> 20) + " MiB need " +
                          std::to_string(needed >> 20) + " MiB more, and there are " +
                          std::to_string(room >> 20) + " MiB in " + folder_ +
                          " and under the memory limits of this process");
  }
  Hide(&Older());
  Fit(&Older(), bytes);
  Slot& kept = slots_[newest_];
  if (!kept.whole()) Fit(&kept, bytes);
}

std::byte* SnapshotSlots::Begin(std::size_t bytes) {
  Slot& slot = Older();
  Hide(&slot);
  if (!Fits(bytes)) Fit(&slot, bytes);
  return slot.map + slot.header;
}

std::string SnapshotSlots::Publish(CheckpointImage image) {
  Slot& slot = Older();
  const std::int64_t step = image.step;
  image.metadata["step"] = std::to_string(step);
  std::string header = BuildHeader(&image.tensors, std::move(image.metadata));
  if (header.size() > slot.header) {
    const std::size_t old_header = slot.header;
    const std::size_t bytes = slot.room();
    Resize(&slot, Pages(header.size() + header.size() / 4), bytes);
    std::memmove(slot.map + slot.header, slot.map + old_header, bytes);
  }
  PadHeader(&header, slot.header);
  std::memcpy(slot.map, header.data(), header.size());
  const std::string path = folder_ + "/" + CheckpointName(step);
  Slot& before = slots_[newest_];
  if (before.path == path) {  // the same step again: this call replaces the file
    Close(&before);
    before.path = before.temporary;
  }
  if (rename(slot.temporary.c_str(), path.c_str()) != 0) ThrowErrno("rename", slot.temporary);
  slot.path = path;
  newest_ = 1 - newest_;
  return path;
}

}  // namespace ddp::internal
