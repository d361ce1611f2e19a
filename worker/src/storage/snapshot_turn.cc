#include "worker/src/storage/snapshot_turn.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "worker/contract/checkpoint_file.h"
#include "worker/contract/control.h"

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
  using ddprun::checkpoint_file::kPrefix;
  using ddprun::checkpoint_file::kSuffix;
  std::optional<std::int64_t> newest;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    name = name.substr(std::string(kPrefix).size());
    name.resize(name.size() - std::string(kSuffix).size());
    newest = std::max(newest, ddprun::control::ParseNumber(name));
  }
  return newest;
}

}  // namespace ddp::internal
