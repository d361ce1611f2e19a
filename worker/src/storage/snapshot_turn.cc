#include "worker/src/storage/snapshot_turn.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "worker/src/storage/checkpoint_name.h"

namespace ddp::internal {

bool SnapshotTurn::Take(std::chrono::milliseconds patience) {
  if (folder_.empty()) return false;
  if (!lock_.valid()) {
    lock_.reset(open((folder_ + "/turn.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::optional<std::int64_t> SnapshotTurn::NewestStep() const {
  std::optional<std::int64_t> newest;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    newest = std::max(newest, StepOf(entry->path().filename().native()));
  }
  return newest;
}

}  // namespace ddp::internal
