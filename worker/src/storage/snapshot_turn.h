// Decides which process of a node makes snapshots in the node's folder (DDPRUN_SNAPSHOT_DIR),
// because only one process at a time may use SnapshotSlots. Usually this is local rank 0. But when
// a generation ends, local rank 0 may be dead, or may have finished fewer steps than another rank.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_
#define DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace ddp::internal {

// A word of a file in the folder names the process that has the turn. Another process may take the
// turn as soon as that process is exiting (worker/contract/process_stat.h). The kernel would
// release a lock only when it has freed the memory of the dead process. Only one thread may use it.
class SnapshotTurn {
 public:
  SnapshotTurn() = default;
  SnapshotTurn(const SnapshotTurn&) = delete;
  SnapshotTurn& operator=(const SnapshotTurn&) = delete;
  // Gives the turn back.
  ~SnapshotTurn();

  void In(std::string folder) { folder_ = std::move(folder); }

  // Waits for the turn for at most `patience`. False: another process has it, there is no folder,
  // or the file with the word cannot be made.
  bool Take(std::chrono::milliseconds patience);

  // The step of the newest complete snapshot in the folder. nullopt: none.
  std::optional<std::int64_t> NewestStep() const;

 private:
  using Word = std::atomic<std::uint64_t>;  // upper half: pid; lower half: its start; 0: nobody

  std::string folder_;
  Word* holder_ = nullptr;  // mapped by the first Take()
  std::uint64_t self_ = 0;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SNAPSHOT_TURN_H_
