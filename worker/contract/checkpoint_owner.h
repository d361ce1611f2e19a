// The owner of a checkpoint folder stands in the file `owner` in that folder. The file has two
// lines (the second is wrapped here):
//
//     REQUEUE_NUMBER GENERATION JOB
//     run=RUN host=HOST pid=PID started=TICKS machine=BOOT/PIDNS slurm=SLURM_JOB
//     state=held|released
//
// Two trainings can reach the same folder: a node that was cut off may continue to train beside its
// successor, or a user may start a second training there by mistake. Therefore the Checkpointers of
// both libraries lock the owner file while they add or remove a checkpoint. Under the lock they
// check that they still own the folder. Without DDPRUN_JOB_RUN_ID (no agent, or an older
// rendezvous) nobody owns a folder.
//
// Rank 0 claims the folder before it searches for a state. While it owns the folder, it updates the
// time of the file every 10 s (worker/src/storage/folder_owner.h). If a lower requeue number of the
// same job owns the folder, an agent claims the folder before it looks for states there. The agent
// writes state=released, so that rank 0 can take the folder at once.
//
// Earlier versions write and read only the first line.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_CHECKPOINT_OWNER_H_
#define DDPRUN_WORKER_CONTRACT_CHECKPOINT_OWNER_H_

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>

#include "worker/contract/job_name.h"
#include "worker/contract/limits.h"
#include "worker/contract/unique_fd.h"
#include "worker/contract/without_controls.h"

namespace ddprun {

inline constexpr char kOwnerFile[] = "owner";

struct CheckpointOwner {
  std::string job;
  std::int64_t requeue_number = 0;
  std::int64_t generation = 0;
  // The fields below stand in the second line. No value contains a space. "": unknown.
  std::string run{};  // DDPRUN_JOB_RUN_ID; "": claimed by an agent or an older version
  std::string host{};
  std::int64_t pid = 0;   // process id of rank 0; 0: unknown
  std::string started{};  // when that process started, in clock ticks since its machine booted
  std::string machine{};  // where `pid` is valid: boot id and PID namespace
  std::string slurm{};    // SLURM_JOB_ID
  bool released = false;  // no process holds the folder: any training may take it
};

// True if both are the same job, possibly at different times (for example before and after Slurm
// requeued it). The name alone is not enough: another job may have the same name. So if both owners
// have a Slurm job id, the ids must also be equal.
inline bool IsSameJob(const CheckpointOwner& a, const CheckpointOwner& b) {
  return a.job == b.job && (a.slurm == b.slurm || a.slurm.empty() || b.slurm.empty());
}

// True if `later` has the same job name, and a higher requeue number, or an equal one and a higher
// generation. Slurm's job id does not count here: callers know that both are one job.
inline bool Succeeds(const CheckpointOwner& later, const CheckpointOwner& earlier) {
  return later.job == earlier.job && std::tie(later.requeue_number, later.generation) >
                                         std::tie(earlier.requeue_number, earlier.generation);
}

inline std::string ToText(const CheckpointOwner& owner) {
  return std::to_string(owner.requeue_number) + " " + std::to_string(owner.generation) + " " +
         owner.job + "\nrun=" + owner.run + " host=" + owner.host +
         " pid=" + std::to_string(owner.pid) + " started=" + owner.started +
         " machine=" + owner.machine + " slurm=" + owner.slurm +
         " state=" + (owner.released ? "released" : "held") + "\n";
}

// Parses the second line if it is complete. Ignores words that only later versions know.
inline void ParseHolder(std::string_view text, CheckpointOwner* owner) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return;
  std::string_view line = text.substr(0, end);
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size() < line.size() ? word.size() + 1 : word.size());
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = word.substr(0, equals);
    const std::string value(word.substr(equals + 1));
    if (name == "run") owner->run = value;
    if (name == "host") owner->host = value;
    if (name == "pid") std::from_chars(value.data(), value.data() + value.size(), owner->pid);
    if (name == "started") owner->started = value;
    if (name == "machine") owner->machine = value;
    if (name == "slurm") owner->slurm = value;
    if (name == "state") owner->released = value == "released";
  }
}

// nullopt: the first line is incomplete or invalid.
inline std::optional<CheckpointOwner> ParseOwner(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  CheckpointOwner owner;
  const char* const last = line.data() + line.size();
  const char* at = line.data();
  for (std::int64_t* const number : {&owner.requeue_number, &owner.generation}) {
    const auto [next, error] = std::from_chars(at, last, *number);
    if (error != std::errc() || next == last || *next != ' ' || *number < 0) return std::nullopt;
    at = next + 1;
  }
  owner.job.assign(at, last);
  ParseHolder(text.substr(end + 1), &owner);
  return owner;
}

// For people, for example: "requeue number 1, generation 0, of job 17 (run 00c0ffee00c0ffee,
// process 4711 on n3)". Replaces control characters, because another user may have written the
// file.
inline std::string Describe(const CheckpointOwner& owner) {
  std::string text = "requeue number " + std::to_string(owner.requeue_number) + ", generation " +
                     std::to_string(owner.generation) + ", of " + NameOfJob(owner.job);
  if (!owner.run.empty()) {
    text +=
        " (run " + owner.run + ", process " + std::to_string(owner.pid) + " on " + owner.host + ")";
  }
  return WithoutControls(text);
}

// The open owner file of a folder. Errors are std::system_error and name the path.
class OwnerFile {
 public:
  enum class For { kReading, kClaiming };  // kClaiming creates a missing file

  OwnerFile(const std::string& folder, For use)
      : path_(folder + "/" + kOwnerFile),
        fd_(::open(path_.c_str(), O_CLOEXEC | (use == For::kReading ? O_RDONLY : O_RDWR | O_CREAT),
                   0666)) {
    if (!fd_.valid()) Fail("open");
  }

  // Waits for the lock for at most `limit`, then throws. No effect on a file system without locks.
  void Lock(std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP) return;
      const bool held = errno == EWOULDBLOCK || errno == EINTR;
      if (!held || std::chrono::steady_clock::now() >= until) Fail("lock");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  std::optional<CheckpointOwner> Read() const {
    char text[kOwnerFileBytes];
    const ssize_t size = ::pread(fd_.get(), text, sizeof text, 0);
    if (size < 0) Fail("read");
    return ParseOwner({text, static_cast<std::size_t>(size)});
  }

  // Writes in place, because the lock belongs to this file and not to its name. If a crash leaves
  // the first line incomplete, the folder has no owner.
  void Write(const CheckpointOwner& owner) const {
    const std::string text = ToText(owner);
    if (::pwrite(fd_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
        ::ftruncate(fd_.get(), static_cast<off_t>(text.size())) != 0 || ::fsync(fd_.get()) != 0) {
      Fail("write");
    }
  }

  // When the file was last written or touched. The file server's clock gives this time.
  std::chrono::nanoseconds Heard() const {
    struct ::stat status = {};
    if (::fstat(fd_.get(), &status) != 0) Fail("look at");
    return std::chrono::seconds(status.st_mtim.tv_sec) +
           std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  }

  // Sets Heard() to the current time.
  void Touch() const {
    if (::futimens(fd_.get(), nullptr) != 0) Fail("touch");
  }

 private:
  [[noreturn]] void Fail(const char* what) const {
    throw std::system_error(errno, std::generic_category(),
                            std::string("cannot ") + what + " " + path_);
  }

  std::string path_;
  UniqueFd fd_;  // closing it releases the lock
};

// nullopt: the folder has no valid owner file, or it cannot be read.
inline std::optional<CheckpointOwner> ReadOwner(const std::string& folder) {
  try {
    return OwnerFile(folder, OwnerFile::For::kReading).Read();
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_CHECKPOINT_OWNER_H_
