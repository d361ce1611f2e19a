#include "worker/src/storage/folder_owner.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>
#include <utility>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/contract/unique_fd.h"
#include "worker/contract/without_controls.h"
#include "worker/src/storage/durable_file.h"
#include "worker/src/storage/process_identity.h"

namespace ddp::internal {
namespace {

namespace env = ddprun::env;
using ddprun::CheckpointOwner;
using ddprun::OwnerFile;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

std::string Text(const char* value) { return value == nullptr ? "" : value; }

std::string Seconds(milliseconds time) {
  return std::to_string(duration_cast<std::chrono::seconds>(time).count()) + " s";
}

// The current time by the clock that stamps the files of this folder.
nanoseconds ServerTime(const std::string& directory) {
  const ddprun::UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status = {};
  if (!fd.valid() || futimens(fd.get(), nullptr) != 0 || fstat(fd.get(), &status) != 0) {
    throw CheckpointError("cannot ask " + directory + " for the time: " + std::strerror(errno));
  }
  return std::chrono::seconds(status.st_mtim.tv_sec) + nanoseconds(status.st_mtim.tv_nsec);
}

// Names the process on this host that holds the lock of a file. Empty: unknown, because /proc/locks
// has only the locks of this kernel.
std::string LockHolder(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return "";
  char file[64];  // "08:01:1234"
  std::snprintf(file, sizeof(file), "%02x:%02x:%lu", major(status.st_dev), minor(status.st_dev),
                static_cast<unsigned long>(status.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    if (line.find("->") != std::string::npos) continue;  // it waits for the lock
    std::istringstream words(line);
    std::string number, kind, advisory, access, pid, where;
    words >> number >> kind >> advisory >> access >> pid >> where;
    if (kind != "FLOCK" || where != file || pid == "0") continue;  // 0: in another PID namespace
    std::string name;
    std::getline(std::ifstream("/proc/" + pid + "/comm"), name);
    return ddprun::WithoutControls("process " + pid + (name.empty() ? "" : " (" + name + ")") +
                                   " on this host");
  }
  return "";
}

// Returns the result of `action`. Its errors become CheckpointErrors.
template <typename Action>
auto OnFile(const Action& action) {
  try {
    return action();
  } catch (const std::system_error& e) {
    throw CheckpointError(e.what());
  }
}

}  // namespace

std::optional<CheckpointOwner> OwnerOfProcess(const Getenv& getenv) {
  const char* const job = getenv(env::kRunId);
  const char* const requeue_number = getenv(env::kEpoch);
  const char* const generation = getenv(env::kGeneration);
  const char* const run = getenv(env::kJobRunId);
  if (job == nullptr || requeue_number == nullptr || generation == nullptr || run == nullptr) {
    return std::nullopt;
  }
  CheckpointOwner self{job, ddprun::control::ParseNumber(requeue_number).value_or(0),
                       ddprun::control::ParseNumber(generation).value_or(0)};
  self.run = run;
  self.host = HostName();
  self.pid = getpid();
  self.started = StartTimeOf(getpid());
  self.machine = Machine();
  self.slurm = Text(getenv("SLURM_JOB_ID"));
  return self;
}

ClaimVerdict JudgeClaim(const CheckpointOwner& self, const OwnerSeen& seen,
                        const FolderOwnerOptions& options) {
  if (!seen.owner) return ClaimVerdict::kTake;
  const CheckpointOwner& owner = *seen.owner;
  const bool same_job = IsSameJob(owner, self);
  if (owner.run == self.run) {
    return Succeeds(owner, self) ? ClaimVerdict::kRefuse : ClaimVerdict::kTake;
  }
  if (same_job && owner.requeue_number > self.requeue_number) return ClaimVerdict::kRefuse;
  if (same_job && owner.requeue_number < self.requeue_number)
    return ClaimVerdict::kTake;  // the job was requeued since
  if (owner.released || seen.gone || seen.silent >= options.silence || options.take_folder) {
    return ClaimVerdict::kTake;
  }
  return ClaimVerdict::kWait;
}

FolderOwner::FolderOwner(std::string directory, std::optional<CheckpointOwner> self,
                         FolderOwnerOptions options)
    : directory_(std::move(directory)), self_(std::move(self)), options_(options) {}

FolderOwner::~FolderOwner() { StopRefreshing(); }

OwnerFile FolderOwner::OpenLocked() const {
  return OnFile([&] {
    OwnerFile file(directory_, OwnerFile::For::kClaiming);
    try {
      file.Lock(options_.lock);
    } catch (const std::system_error& e) {
      if (e.code() != std::errc::operation_would_block) throw;
      std::string holder = LockHolder(directory_ + "/" + ddprun::kOwnerFile);
      if (holder.empty()) holder = "a process on another host or in another container";
      const auto owner = file.Read();
      throw CheckpointError("the lock of the checkpoint folder " + directory_ +
                            " was not free for " + Seconds(options_.lock) + ": " + holder +
                            " has it" +
                            (owner ? "; the folder belongs to " + Describe(*owner) : ""));
    }
    return file;
  });
}

OwnerSeen FolderOwner::Look(const OwnerFile& file) const {
  OwnerSeen seen;
  seen.owner = OnFile([&] { return file.Read(); });
  if (!seen.owner) return seen;
  const CheckpointOwner& owner = *seen.owner;
  if (owner.run == self_->run) return seen;  // the generations decide
  seen.heard = OnFile([&] { return file.Heard(); });
  seen.silent = duration_cast<milliseconds>(ServerTime(directory_) - seen.heard);
  seen.gone = !owner.machine.empty() && owner.machine == self_->machine && owner.pid > 0 &&
              IsGone(static_cast<pid_t>(owner.pid), owner.started);
  return seen;
}

bool FolderOwner::IsOurs(const std::optional<CheckpointOwner>& owner) const {
  return owner && owner->run == self_->run && owner->requeue_number == self_->requeue_number &&
         owner->generation == self_->generation;
}

void FolderOwner::Refuse(const CheckpointOwner& owner, const std::string& more) const {
  throw FolderTaken("the checkpoint folder " + directory_ + " belongs to " + Describe(owner) +
                    more);
}

void FolderOwner::Take(const OwnerFile& file) {
  OnFile([&] { file.Write(*self_); });
  claimed_ = true;
  StartRefreshing();
}

bool FolderOwner::TryClaim() {
  if (!self_ || claimed_) return true;
  MakeDirectory(directory_);
  const OwnerFile file = OpenLocked();
  const OwnerSeen seen = Look(file);
  switch (JudgeClaim(*self_, seen, options_)) {
    case ClaimVerdict::kTake:
      Take(file);
      return true;
    case ClaimVerdict::kRefuse:
      Refuse(*seen.owner, ", and this is what is left of " + Describe(*self_));
    case ClaimVerdict::kWait:
      break;
  }
  const auto before = std::exchange(heard_, seen.heard);
  if (before && seen.heard > *before) {
    Refuse(*seen.owner,
           ", which lives: two trainings in one folder would remove each other's checkpoints. Give "
           "this one another folder (--checkpoint-dir), end that one, or take the folder from it "
           "with --take-folder");
  }
  if (!before) {
    std::cerr << "[rank 0] the checkpoint folder " + directory_ + " belongs to " +
                     Describe(*seen.owner) + ", heard " + Seconds(seen.silent) +
                     " ago: waiting until it was silent for " + Seconds(options_.silence) + "\n"
              << std::flush;
  }
  return false;
}

void FolderOwner::Claim() {
  while (!TryClaim()) std::this_thread::sleep_for(options_.look);
}

void FolderOwner::Guard(const std::function<void()>& action) {
  if (!self_) {
    action();
    return;
  }
  Claim();
  const OwnerFile file = OpenLocked();
  const auto owner = OnFile([&] { return file.Read(); });
  if (owner && !IsOurs(owner)) {
    Refuse(*owner, ", and this is what is left of " + Describe(*self_));
  }
  if (!owner || owner->released) Take(file);  // the folder was made anew, or released
  action();
}

void FolderOwner::Release() {
  StopRefreshing();
  if (!std::exchange(claimed_, false)) return;
  try {
    const OwnerFile file = OpenLocked();
    if (!IsOurs(file.Read())) return;
    CheckpointOwner released = *self_;
    released.released = true;
    file.Write(released);
  } catch (const std::exception& e) {
    std::cerr
        << "[rank 0] warning: the checkpoint folder is not released, and who comes next waits "
           "for " +
               Seconds(options_.silence) + ": " + e.what() + "\n"
        << std::flush;
  }
}

void FolderOwner::StartRefreshing() {
  if (refresher_.joinable()) return;
  refresher_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "ddp-owner");
    std::unique_lock<std::mutex> lock(mutex_);
    while (!wake_.wait_for(lock, options_.refresh, [this] { return stop_; })) {
      lock.unlock();
      Refresh();
      lock.lock();
    }
  });
}

void FolderOwner::StopRefreshing() {
  if (!refresher_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  refresher_.join();
  stop_ = false;
}

// Needs no lock, because a time that is too new does no harm. The next save reports a failure.
void FolderOwner::Refresh() const {
  try {
    const OwnerFile file(directory_, OwnerFile::For::kReading);
    if (IsOurs(file.Read())) file.Touch();
  } catch (const std::system_error&) {
  }
}

}  // namespace ddp::internal
