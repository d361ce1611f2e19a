// Two places for snapshots of a training in a folder in memory (DDPRUN_SNAPSHOT_DIR), of which one
// at least always holds a whole snapshot while the other is written.
//
// A slot is a file of the same form as a checkpoint. While it is whole it has a checkpoint's name,
// step-<number>.safetensors; from the moment it is written to until it is whole again,
// slot-<n>.tmp. So whoever is killed when, a file under a checkpoint's name is whole. Both
// outlive the process, and its successor goes on with them: memory that is touched for the first
// time costs far more than the copy.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SLOTS_H_
#define DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SLOTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "worker/contract/unique_fd.h"
#include "worker/src/storage/checkpoint_folder.h"

namespace ddp::internal {

// One thread at a time.
class SnapshotSlots {
 public:
  // `keep_step`: what this process resumed from. The snapshot of that step, or, where another node
  // had it, the newest one before, is not written over until there is a newer one: the launcher
  // counts on it. Takes over the files that it finds; throws nothing for what it cannot use.
  SnapshotSlots(std::string folder, std::optional<std::int64_t> keep_step);
  ~SnapshotSlots();
  SnapshotSlots(const SnapshotSlots&) = delete;
  SnapshotSlots& operator=(const SnapshotSlots&) = delete;

  // Gets the memory for two states of `bytes` bytes, and touches it; the snapshot to keep stays.
  // Throws CheckpointError, which says how much there is, if that is not enough.
  void Prepare(std::size_t bytes);

  // Whether Begin() need not get memory.
  bool Fits(std::size_t bytes) const;

  // Where the `bytes` bytes of the next snapshot go: in the slot that does not hold the newest one,
  // which is no snapshot from here on. The memory is good until the next call. Throws
  // CheckpointError.
  std::byte* Begin(std::size_t bytes);

  // Makes what was written a snapshot; `image`: the tensors, in the memory that Begin() gave, in
  // the order of a file. Returns its path. Throws CheckpointError.
  std::string Publish(CheckpointImage image);

 private:
  struct Slot {
    ddprun::UniqueFd file;
    std::string path;       // of now
    std::string temporary;  // while it is written
    std::byte* map = nullptr;
    std::size_t size = 0;    // of map and file
    std::size_t header = 0;  // bytes in front of the state's

    std::size_t room() const { return size - header; }
    bool whole() const { return path != temporary; }
  };

  Slot& Older() { return slots_[1 - newest_]; }
  const Slot& Older() const { return slots_[1 - newest_]; }
  static void Open(Slot* slot);
  static void Close(Slot* slot);
  static void Fit(Slot* slot, std::size_t bytes);
  static void Resize(Slot* slot, std::size_t header, std::size_t bytes);
  static void Hide(Slot* slot);

  const std::string folder_;
  std::array<Slot, 2> slots_;
  std::size_t newest_ = 1;  // of slots_
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SLOTS_H_
