#include "rendezvous/service/job/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

UniqueFd OpenForAppend(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600));
}

// Appends all of `text` or nothing. Returns 0 or the errno.
int AppendWhole(int fd, std::string_view text) {
  struct stat before {};
  const bool regular = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      if (regular && rest.size() < text.size()) (void)!ftruncate(fd, before.st_size);
      return error;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// The size if `fd` is a regular file; else 0.
std::size_t SizeOf(int fd) {
  struct stat status {};
  const bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  return regular ? static_cast<std::size_t>(status.st_size) : 0;
}

bool IsAt(const std::string& path, int fd) {
  struct stat there {};
  struct stat open {};
  return stat(path.c_str(), &there) == 0 && fstat(fd, &open) == 0 && there.st_dev == open.st_dev &&
         there.st_ino == open.st_ino;
}

}  // namespace

std::string LineFile::RenamedPath(const std::string& path, int age) {
  return absl::StrCat(path, ".", age);
}

struct LineFile::State {
  explicit State(Options options) : options(std::move(options)) {}

  // Writes until the queue is empty.
  void Write();
  void OpenAnew();
  // Rotates if `bytes` more would exceed the file's limit.
  void RotateIfFull(std::size_t bytes);

  const Options options;
  // Used by the thread only, once Open has returned.
  UniqueFd fd;
  bool cannot_rename = false;  // a failed rename was logged

  std::mutex mutex;
  // Guarded by mutex.
  std::vector<std::string> queue;
  std::size_t queued_bytes = 0;  // of the queue and of lines being written
  bool reopen = false;
  bool scheduled = false;   // a task will write the queue
  std::size_t dropped = 0;  // since the start
  std::size_t missing = 0;  // dropped since the last written line
};

LineFile::LineFile(Options options) : state_(std::make_shared<State>(std::move(options))) {}

LineFile::~LineFile() {
  tasks_.Post([state = state_] { state->fd.reset(); });
  tasks_.CloseWithin(kCloseGrace);
}

absl::Status LineFile::Open() {
  state_->fd = OpenForAppend(state_->options.path);
  if (state_->fd.valid()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot open ", state_->options.path, ": ",
                                             std::generic_category().message(errno)));
}

void LineFile::Schedule() {
  if (std::exchange(state_->scheduled, true)) return;
  tasks_.Post([state = state_] { state->Write(); });
}

void LineFile::Append(std::string line) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queued_bytes + line.size() <= state_->options.max_queued_bytes) {
      state_->queued_bytes += line.size() + 1;
      state_->queue.push_back(std::move(line));
      Schedule();
      return;
    }
    ++state_->dropped;
    if (state_->missing++ > 0) return;
  }
  state_->options.log(
      absl::StrCat(state_->options.path,
                   ": the disk is too slow for the events, or does not answer: lines are "
                   "dropped until the disk has caught up"));
}

void LineFile::Reopen() {
  const std::lock_guard lock(state_->mutex);
  state_->reopen = true;
  Schedule();
}

std::size_t LineFile::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

void LineFile::State::OpenAnew() {
  UniqueFd fresh = OpenForAppend(options.path);
  if (fresh.valid()) {
    fd = std::move(fresh);
  } else {
    options.log(absl::StrCat("cannot open ", options.path, " again, the old file stays in use: ",
                             std::generic_category().message(errno)));
  }
}

void LineFile::State::RotateIfFull(std::size_t bytes) {
  const std::size_t size = SizeOf(fd.get());
  if (size == 0 || size + bytes <= options.max_file_bytes) return;
  int error = 0;
  if (IsAt(options.path, fd.get())) {
    for (int age = options.kept; age > 1; --age) {
      // Replaces the oldest. Fails harmlessly if there are fewer files.
      (void)!rename(RenamedPath(options.path, age - 1).c_str(),
                    RenamedPath(options.path, age).c_str());
    }
    if (rename(options.path.c_str(), RenamedPath(options.path, 1).c_str()) != 0) error = errno;
  }
  if (error == 0) {
    OpenAnew();
  } else if (!cannot_rename) {
    options.log(absl::StrCat("cannot rename ", options.path, " to ", RenamedPath(options.path, 1),
                             ": ", std::generic_category().message(error),
                             "; the file grows beyond ", options.max_file_bytes >> 20,
                             " MiB until the renaming works"));
  }
  cannot_rename = error != 0;
}

void LineFile::State::Write() {
  std::unique_lock lock(mutex);
  while (reopen || !queue.empty()) {
    const bool was_renamed = std::exchange(reopen, false);
    const std::vector<std::string> lines = std::exchange(queue, {});
    const std::size_t unwritten = missing;
    lock.unlock();

    if (was_renamed) OpenAnew();
    std::string text;
    if (unwritten > 0) absl::StrAppend(&text, options.missing(unwritten), "\n");
    std::size_t bytes = 0;
    for (const std::string& line : lines) {
      absl::StrAppend(&text, line, "\n");
      bytes += line.size() + 1;
    }
    if (!lines.empty()) RotateIfFull(text.size());
    const int error = lines.empty() ? 0 : AppendWhole(fd.get(), text);
    if (error != 0 && unwritten == 0) {
      options.log(absl::StrCat("cannot write to ", options.path, ": ",
                               std::generic_category().message(error),
                               ": lines are dropped until it works again"));
    } else if (error == 0 && unwritten > 0 && !lines.empty()) {
      options.log(absl::StrCat(options.path, ": written again; ", unwritten, " lines are missing"));
    }

    lock.lock();
    queued_bytes -= bytes;
    if (error != 0) {
      missing += lines.size();
      dropped += lines.size();
    } else if (!lines.empty()) {
      missing -= unwritten;
    }
  }
  scheduled = false;
}

}  // namespace ddprun
