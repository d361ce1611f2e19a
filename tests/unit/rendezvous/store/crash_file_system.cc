#include "tests/unit/rendezvous/store/crash_file_system.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr std::size_t kSmallestPiece = 8;

}  // namespace

class CrashFileSystem::File final : public JournalFile {
 public:
  File(CrashFileSystem* files, std::shared_ptr<Inode> inode)
      : files_(files), inode_(std::move(inode)) {}

  absl::Status Append(std::string_view bytes) override {
    const std::lock_guard lock(files_->mutex_);
    bool partly = false;
    const absl::Status status = files_->Begin(Op::kAppend, &partly);
    if (!status.ok() && partly) bytes = bytes.substr(0, files_->Below(bytes.size() + 1));
    if (status.ok() || partly) inode_->current.append(bytes);
    return status;
  }

  absl::Status Sync() override {
    const std::lock_guard lock(files_->mutex_);
    bool partly = false;
    const absl::Status status = files_->Begin(Op::kSync, &partly);
    if (status.ok()) inode_->synced = inode_->current;
    return status;
  }

  absl::Status Truncate(std::uint64_t size) override {
    const std::lock_guard lock(files_->mutex_);
    bool partly = false;
    const absl::Status status = files_->Begin(Op::kTruncate, &partly);
    if (status.ok() || (partly && files_->Coin())) inode_->current.resize(size);
    return status;
  }

 private:
  CrashFileSystem* const files_;  // the test's; outlives every store
  const std::shared_ptr<Inode> inode_;
};

void CrashFileSystem::SetFault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void CrashFileSystem::CrashAt(int number, std::function<void()> on_crash) {
  const std::lock_guard lock(mutex_);
  crash_at_ = number;
  on_crash_ = std::move(on_crash);
}

bool CrashFileSystem::crashed() const {
  const std::lock_guard lock(mutex_);
  return crashed_;
}

int CrashFileSystem::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

absl::Status CrashFileSystem::Begin(Op op, bool* partly) {
  *partly = false;
  if (crashed_) return absl::AbortedError("crashed");
  ++operations_;
  *partly = true;
  if (operations_ == crash_at_) {
    crashed_ = true;
    if (on_crash_) on_crash_();
    return absl::AbortedError("crashed");
  }
  // The call may fail without a crash. Then an append or a sync may take effect in part, but a
  // change of names does not.
  *partly = op == Op::kAppend || op == Op::kSync;
  return fault_ ? fault_(op, operations_) : absl::OkStatus();
}

std::string CrashFileSystem::AfterPowerLoss(const Inode& inode) {
  const std::string& before = inode.synced;
  const std::string& after = inode.current;
  if (before == after) return after;
  const std::size_t smaller = std::min(before.size(), after.size());
  const std::size_t larger = std::max(before.size(), after.size());
  std::string left(Coin() ? after.size() : smaller + Below(larger - smaller + 1), '\0');
  const int kinds = Coin() ? 4 : 2;  // often only old and new bytes, so that longer parts survive
  const std::size_t piece = kSmallestPiece << Below(5);
  for (std::size_t at = 0; at < left.size(); at += piece) {
    const std::size_t size = std::min(piece, left.size() - at);
    switch (Below(kinds)) {
      case 0:
        if (at < after.size()) left.replace(at, size, after.substr(at, size));
        break;
      case 1:
        if (at < before.size()) left.replace(at, size, before.substr(at, size));
        break;
      case 2:
        break;
      default:
        for (std::size_t i = at; i < at + size; ++i) left[i] = static_cast<char>(random_());
    }
    // Synced bytes that have not changed since are safe.
    for (std::size_t i = at; i < std::min(at + size, smaller); ++i) {
      if (before[i] == after[i]) left[i] = after[i];
    }
  }
  return left;
}

void CrashFileSystem::Restart(bool power_loss) {
  const std::lock_guard lock(mutex_);
  if (power_loss) {
    if (!unsynced_names_.empty()) names_ = unsynced_names_[Below(unsynced_names_.size())];
    unsynced_names_.clear();
    for (auto& [name, inode] : names_) {
      auto left = std::make_shared<Inode>();
      left->current = left->synced = AfterPowerLoss(*inode);
      inode = std::move(left);
    }
  }
  crashed_ = false;
  crash_at_ = 0;
  on_crash_ = nullptr;
  operations_ = 0;
  fault_ = nullptr;
}

std::string CrashFileSystem::Bytes(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(path);
  return found == names_.end() ? "" : found->second->current;
}

void CrashFileSystem::SetBytes(const std::string& path, std::string bytes) {
  const std::lock_guard lock(mutex_);
  auto inode = std::make_shared<Inode>();
  inode->current = inode->synced = std::move(bytes);
  names_[path] = std::move(inode);
}

std::vector<std::string> CrashFileSystem::Names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, inode] : names_) names.push_back(name);
  return names;
}

absl::Status CrashFileSystem::MakeDirectory(const std::string&) { return absl::OkStatus(); }

absl::StatusOr<std::unique_ptr<DirectoryLock>> CrashFileSystem::Lock(const std::string&) {
  return std::make_unique<DirectoryLock>();
}

absl::Status CrashFileSystem::SyncDirectory(const std::string&) {
  const std::lock_guard lock(mutex_);
  bool partly = false;
  const absl::Status status = Begin(Op::kSyncDirectory, &partly);
  if (status.ok()) unsynced_names_.clear();
  return status;
}

absl::StatusOr<std::string> CrashFileSystem::Read(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(path);
  if (found == names_.end()) return absl::NotFoundError(absl::StrCat("no ", path));
  return found->second->current;
}

absl::StatusOr<std::unique_ptr<JournalFile>> CrashFileSystem::Create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  bool partly = false;
  const absl::Status status = Begin(Op::kCreate, &partly);
  auto inode = std::make_shared<Inode>();
  if (status.ok() || (partly && Coin())) {
    if (unsynced_names_.empty()) unsynced_names_.push_back(names_);
    names_[path] = inode;
    unsynced_names_.push_back(names_);
  }
  if (!status.ok()) return status;
  return std::make_unique<File>(this, std::move(inode));
}

absl::StatusOr<std::unique_ptr<JournalFile>> CrashFileSystem::Open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(path);
  if (found == names_.end()) return absl::NotFoundError(absl::StrCat("no ", path));
  return std::make_unique<File>(this, found->second);
}

absl::Status CrashFileSystem::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  bool partly = false;
  const absl::Status status = Begin(Op::kRename, &partly);
  if (status.ok() || (partly && Coin())) {
    if (unsynced_names_.empty()) unsynced_names_.push_back(names_);
    names_[to] = names_.at(from);
    names_.erase(from);
    unsynced_names_.push_back(names_);
  }
  return status;
}

absl::Status CrashFileSystem::Remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (names_.count(path) == 0) return absl::OkStatus();
  bool partly = false;
  const absl::Status status = Begin(Op::kRemove, &partly);
  if (status.ok() || (partly && Coin())) {
    if (unsynced_names_.empty()) unsynced_names_.push_back(names_);
    names_.erase(path);
    unsynced_names_.push_back(names_);
  }
  return status;
}

}  // namespace ddprun
