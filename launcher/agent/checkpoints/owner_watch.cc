#include "launcher/agent/checkpoints/owner_watch.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kLockLimit{1};

bool IsLaterLife(const CheckpointOwner& owner, const CheckpointOwner& life) {
  return IsSameJob(owner, life) && owner.requeue_number > life.requeue_number;
}

}  // namespace

CheckpointOwner LifeOf(const std::string& job, std::uint32_t requeue_number) {
  CheckpointOwner life{job, requeue_number, 0};
  const char* const slurm = std::getenv("SLURM_JOB_ID");
  if (slurm != nullptr) life.slurm = slurm;
  return life;
}

void ClaimFromEarlierLife(const std::string& folder, const CheckpointOwner& life) {
  const auto earlier = [&](const std::optional<CheckpointOwner>& owner) {
    return owner && IsLaterLife(life, *owner);
  };
  if (!earlier(ReadOwner(folder))) return;
  try {
    OwnerFile file(folder, OwnerFile::For::kClaiming);
    file.Lock(kLockLimit);
    if (!earlier(file.Read())) return;
    CheckpointOwner self = life;
    self.released = true;  // so that this life's rank 0 can take it
    file.Write(self);
  } catch (const std::system_error&) {
    // No permission to write, or the folder is gone.
  }
}

void ReleaseFolder(const std::string& folder, const CheckpointOwner& holder) {
  const auto held = [&](const std::optional<CheckpointOwner>& owner) {
    return owner && !owner->released && owner->run == holder.run && owner->job == holder.job &&
           owner->requeue_number == holder.requeue_number && owner->generation == holder.generation;
  };
  if (!held(ReadOwner(folder))) return;
  try {
    OwnerFile file(folder, OwnerFile::For::kClaiming);
    file.Lock(kLockLimit);
    auto owner = file.Read();
    if (!held(owner)) return;
    const auto pid = static_cast<pid_t>(owner->pid);
    if (pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH)) return;
    owner->released = true;
    file.Write(*owner);
  } catch (const std::system_error&) {
    // The next owner then waits until this owner counts as silent.
  }
}

OwnerWatch::OwnerWatch(EventLoop* loop, Options options,
                       std::function<void(std::string)> superseded)
    : loop_(loop),
      options_(std::move(options)),
      superseded_(std::move(superseded)),
      thread_(loop, "ddprun-owner") {
  Look();
}

OwnerWatch::~OwnerWatch() { loop_->CancelTimer(next_look_); }

void OwnerWatch::Look() {
  thread_.Run([folder = options_.folder] { return ReadOwner(folder); },
              [this](const std::optional<CheckpointOwner>& owner) {
                if (owner && IsLaterLife(*owner, options_.life)) {
                  superseded_(absl::StrCat("requeue number ", options_.life.requeue_number, " of ",
                                           NameOfJob(options_.life.job),
                                           " is over: it was started again, and ", options_.folder,
                                           " belongs to requeue number ", owner->requeue_number));
                  return;
                }
                next_look_ = loop_->AddTimer(EventLoop::Clock::now() + options_.interval,
                                             [this] { Look(); });
              });
}

}  // namespace ddprun
