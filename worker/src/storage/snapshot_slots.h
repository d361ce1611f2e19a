// Two slots for snapshots of a training, in a folder in memory (DDPRUN_SNAPSHOT_DIR). While one
// slot is written, the other holds the newest complete snapshot, if there is one.
//
// A slot is a file in the format of a checkpoint. While it is complete, it has a checkpoint's name:
// step-<number>.safetensors. From the first write until it is complete again, its name is
// slot-<n>.tmp. So after a kill at any time, each file with a checkpoint's name is complete. Both
// files outlive the process, and its successor reuses them, because the first touch of new memory
// costs far more than the copy.
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

// Only one thread at a time may use it.
class SnapshotSlots {
 public:
  // `keep_step` is the step from which this process resumed. The snapshot of that step is not
  // overwritten until a newer one exists, because the launcher relies on it. If another node had
  // that snapshot, the newest older snapshot of this node is kept. The constructor reuses or
  // removes the other files that it finds, and never throws for unusable ones.
  SnapshotSlots(std::string folder, std::optional<std::int64_t> keep_step);
  ~SnapshotSlots();
  SnapshotSlots(const SnapshotSlots&) = delete;
  SnapshotSlots& operator=(const SnapshotSlots&) = delete;

  // Allocates and touches the memory for two states of `bytes` bytes. The snapshot that must be
  // kept stays as it is. Throws CheckpointError if there is not enough memory.
  void Prepare(std::size_t bytes);

  // True if Begin() need not allocate.
  bool Fits(std::size_t bytes) const;

  // Returns the memory for the next snapshot of `bytes` bytes. It is the slot without the newest
  // snapshot, and that slot's contents are lost. Valid until the next call. Throws CheckpointError.
  std::byte* Begin(std::size_t bytes);

  // Makes a snapshot of the written bytes. `image` has the tensors in the memory from Begin(), in
  // the order of a file. Returns the snapshot's path. Throws CheckpointError.
  std::string Publish(CheckpointImage image);

 private:
  struct Slot {
    ddprun::UniqueFd file;
    std::string path;       // current path
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
