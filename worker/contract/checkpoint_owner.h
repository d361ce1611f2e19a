// Whose a folder of checkpoints is: the file `owner` in it, one line `EPOCH GENERATION JOB`.
//
// A node that was cut off from the others may train on beside its successor, the same job of a
// higher epoch, and reach the same folder. Whoever puts a checkpoint there, or removes one, holds
// the lock of the owner file meanwhile, and has looked there whether he still may. The claim is
// made by the first save of a generation; an agent makes it for a requeued job before it looks what
// there is, so that nothing of the life before appears or vanishes after that.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_CHECKPOINT_OWNER_H_
#define DDPRUN_WORKER_CONTRACT_CHECKPOINT_OWNER_H_

#include <fcntl.h>
#include <sys/file.h>
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

#include "worker/contract/unique_fd.h"

namespace ddprun {

inline constexpr char kOwnerFile[] = "owner";

struct CheckpointOwner {
  std::string job;
  std::int64_t epoch = 0;
  std::int64_t generation = 0;
};

// The same job, started again later.
inline bool Succeeds(const CheckpointOwner& later, const CheckpointOwner& earlier) {
  return later.job == earlier.job &&
         std::tie(later.epoch, later.generation) > std::tie(earlier.epoch, earlier.generation);
}

inline std::string ToLine(const CheckpointOwner& owner) {
  return std::to_string(owner.epoch) + " " + std::to_string(owner.generation) + " " + owner.job +
         "\n";
}

// Of the first line; nothing for one that is not whole.
inline std::optional<CheckpointOwner> ParseOwner(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  CheckpointOwner owner;
  const char* const last = line.data() + line.size();
  const char* at = line.data();
  for (std::int64_t* const number : {&owner.epoch, &owner.generation}) {
    const auto [next, error] = std::from_chars(at, last, *number);
    if (error != std::errc() || next == last || *next != ' ' || *number < 0) return std::nullopt;
    at = next + 1;
  }
  owner.job.assign(at, last);
  return owner;
}

// For people: "epoch 1, generation 0, of job 17".
inline std::string Describe(const CheckpointOwner& owner) {
  return "epoch " + std::to_string(owner.epoch) + ", generation " +
         std::to_string(owner.generation) + ", of job " + owner.job;
}

// The owner file of a folder, open. Errors are std::system_error, with the path.
class OwnerFile {
 public:
  enum class For { kReading, kClaiming };  // which makes it where it is missing

  OwnerFile(const std::string& folder, For use)
      : path_(folder + "/" + kOwnerFile),
        fd_(::open(path_.c_str(), O_CLOEXEC | (use == For::kReading ? O_RDONLY : O_RDWR | O_CREAT),
                   0666)) {
    if (!fd_.valid()) Fail("open");
  }

  // Waits until no other process has the lock. A file system without locks lets everybody pass.
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
    char text[4096];
    const ssize_t size = ::pread(fd_.get(), text, sizeof text, 0);
    if (size < 0) Fail("read");
    return ParseOwner({text, static_cast<std::size_t>(size)});
  }

  // In place, for the lock is on the file. A line that a crash has cut counts as none.
  void Write(const CheckpointOwner& owner) const {
    const std::string line = ToLine(owner);
    if (::pwrite(fd_.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size()) ||
        ::ftruncate(fd_.get(), static_cast<off_t>(line.size())) != 0 || ::fsync(fd_.get()) != 0) {
      Fail("write");
    }
  }

 private:
  [[noreturn]] void Fail(const char* what) const {
    throw std::system_error(errno, std::generic_category(),
                            std::string("cannot ") + what + " " + path_);
  }

  const std::string path_;
  const UniqueFd fd_;  // closing it gives the lock back
};

// Nothing where there is no owner file, or none that can be read.
inline std::optional<CheckpointOwner> ReadOwner(const std::string& folder) {
  try {
    return OwnerFile(folder, OwnerFile::For::kReading).Read();
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_CHECKPOINT_OWNER_H_
