#include "worker/src/storage/folder_owner.h"

#include <ddp/errors.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"

namespace ddp::internal {
namespace {

namespace env = ddprun::env;
using ddprun::CheckpointOwner;
using ddprun::OwnerFile;

// Who holds the lock renames or removes some files.
constexpr std::chrono::seconds kLockLimit{10};

}  // namespace

std::optional<CheckpointOwner> OwnerOfProcess(const Getenv& getenv) {
  const char* const job = getenv(env::kRunId);
  const char* const epoch = getenv(env::kEpoch);
  const char* const generation = getenv(env::kGeneration);
  if (job == nullptr || epoch == nullptr || generation == nullptr) return std::nullopt;
  return CheckpointOwner{job, ddprun::control::ParseNumber(epoch).value_or(0),
                         ddprun::control::ParseNumber(generation).value_or(0)};
}

FolderOwner::FolderOwner(std::string directory, std::optional<CheckpointOwner> self)
    : directory_(std::move(directory)), self_(std::move(self)) {}

void FolderOwner::Guard(const std::function<void()>& action) {
  if (!self_) {
    action();
    return;
  }
  std::optional<OwnerFile> file;
  std::optional<CheckpointOwner> found;
  try {
    file.emplace(directory_, OwnerFile::For::kClaiming);
    file->Lock(kLockLimit);
    found = file->Read();
  } catch (const std::system_error& e) {
    throw CheckpointError(e.what());
  }
  const bool same_job = found && found->job == self_->job;
  const bool lost =
      found &&
      (same_job ? (claimed_ ? ddprun::Succeeds(*found, *self_) : found->epoch > self_->epoch)
                : claimed_);
  if (lost) {
    throw CheckpointError("the folder " + directory_ + " belongs to " + ddprun::Describe(*found) +
                          ", and this is what is left of " + ddprun::Describe(*self_));
  }
  if (!same_job || found->epoch != self_->epoch || found->generation != self_->generation) {
    try {
      file->Write(*self_);
    } catch (const std::system_error& e) {
      throw CheckpointError(e.what());
    }
  }
  claimed_ = true;
  action();
}

}  // namespace ddp::internal
