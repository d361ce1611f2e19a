#include "worker/src/storage/snapshot_turn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "worker/contract/process_stat.h"
#include "worker/contract/unique_fd.h"
#include "worker/src/storage/checkpoint_name.h"

namespace ddp::internal {
namespace {

// 0: there is no such process, or /proc cannot be read.
std::uint64_t IdOf(pid_t pid) {
  const auto stat = ddprun::ReadProcessStat(pid);
  return stat ? static_cast<std::uint64_t>(pid) << 32 | (stat->started & 0xffffffffu) : 0;
}

// True if this process will not use the slots again.
bool IsOver(std::uint64_t id) {
  const auto pid = static_cast<pid_t>(id >> 32);
  const std::uint64_t present = IdOf(pid);
  if (present == 0) return kill(pid, 0) != 0;  // EPERM: another user's process has its number now
  return present != id || ddprun::IsExiting(pid);
}

void* MapWord(const std::string& path) {
  const ddprun::UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid() || posix_fallocate(file.get(), 0, sizeof(std::uint64_t)) != 0) return nullptr;
  void* const word =
      mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return word == MAP_FAILED ? nullptr : word;
}

}  // namespace

bool SnapshotTurn::Take(std::chrono::milliseconds patience) {
  if (folder_.empty()) return false;
  if (holder_ == nullptr) {
    holder_ = static_cast<Word*>(MapWord(folder_ + "/turn"));
    if (holder_ == nullptr) return false;
  }
  if (self_ == 0) self_ = IdOf(getpid());
  if (self_ == 0) return false;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    std::uint64_t holder = holder_->load();
    if (holder == self_) return true;
    if ((holder == 0 || IsOver(holder)) && holder_->compare_exchange_strong(holder, self_)) {
      return true;
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

SnapshotTurn::~SnapshotTurn() {
  if (holder_ == nullptr) return;
  std::uint64_t self = self_;
  holder_->compare_exchange_strong(self, 0);
  munmap(holder_, sizeof(std::uint64_t));
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
