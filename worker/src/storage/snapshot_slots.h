// Two slots for snapshots of a training in a folder in memory (DDPRUN_SNAPSHOT_DIR). At least one
// always holds a whole snapshot while the other is written.
//
// A slot is a file in the format of a checkpoint. While it is whole it has a checkpoint's name,
// step-<number>.safetensors; from the first write until it is whole again, slot-<n>.tmp. So after a
// kill at any moment, a file with a checkpoint's name is whole. Both files outlive the process, and
// its successor reuses them: the first touch of memory costs far more than the copy.
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
  // `keep_step`: the step from which this process resumed. The snapshot of that step, or the newest
  // older one if another node had it, is not overwritten until a newer one exists: the launcher
  // relies on it. Takes over the files that it finds; does not throw for unusable ones.
  SnapshotSlots(std::string folder, std::optional<std::int64_t> keep_step);
  ~SnapshotSlots();
  SnapshotSlots(const SnapshotSlots&) = delete;
  SnapshotSlots& operator=(const SnapshotSlots&) = delete;

  // Allocates and touches the memory for two states of `bytes` bytes; the snapshot to keep stays.
  // Throws CheckpointError, which names the available memory, if that is not enough.
  void Prepare(std::size_t bytes);

  // Begin() need not allocate.
  bool Fits(std::size_t bytes) const;

  // The memory for the next snapshot of `bytes` bytes: the slot without the newest snapshot, whose
  // contents are lost. Valid until the next call. Throws CheckpointError.
  std::byte* Begin(std::size_t bytes);

  // Turns the written bytes into a snapshot. `image`: the tensors in the memory from Begin(), in
  // the order of a file. Returns its path. Throws CheckpointError.
  std::string Publish(CheckpointImage image);

 private:
  struct Slot {
    ddprun::UniqueFd file;
    std::string path;       // present path
    std::string temporary;  // path while it is written
    std::byte* map = nullptr;
    std::size_t size = 0;    // of map and file
    std::size_t header = 0;  // bytes in front of the state

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
  std::size_t newest_ = 1;  // index in slots_
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_SLOTS_H_
