#include "launcher/os/output/writer_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/os/check.h"
#include "launcher/os/file_util.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kDestructorGrace{2000};
constexpr std::size_t kBufferToKeep = 256 << 10;  // a larger one is freed after a flood
constexpr mode_t kFileMode = 0644;

absl::Status OpenForAppend(const std::string& path, UniqueFd* fd) {
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    if (absl::Status made = MakeDirs(path.substr(0, slash)); !made.ok()) return made;
  }
  fd->reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kFileMode));
  if (fd->valid()) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot open log file ", path));
}

absl::Status WriteAll(const std::string& path, int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno != EINTR) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write log file ", path));
    }
  }
  return absl::OkStatus();
}

}  // namespace

struct WriterThread::File {
  std::string path;        // constant
  std::string pending;     // guarded by State::mutex, like all that follows
  std::size_t queued = 0;  // pending, and what is being written
  bool over = false;       // its writer was told to wait
  bool scheduled = false;  // a task for it is queued
  bool closing = false;
  bool failed = false;
  UniqueFd fd;  // the writer's thread only
};

struct WriterThread::Callbacks {  // the loop's thread only
  ErrorHandler on_error;
  std::unordered_map<FileId, std::function<void()>> on_drained;
};

struct WriterThread::State {
  State(EventLoop* loop, std::weak_ptr<Callbacks> callbacks)
      : callbacks(std::move(callbacks)), loop(loop) {}

  const std::weak_ptr<Callbacks> callbacks;
  std::mutex mutex;
  // Guarded by mutex.
  EventLoop* loop;  // nullptr when the WriterThread is gone
  std::unordered_map<FileId, std::unique_ptr<File>> files;
  std::size_t peak = 0;

  void PostDrained(FileId id) {
    if (loop == nullptr) return;
    loop->Post([weak = callbacks, id] {
      const std::shared_ptr<Callbacks> alive = weak.lock();
      if (alive == nullptr) return;
      const auto found = alive->on_drained.find(id);
      if (found == alive->on_drained.end()) return;  // closed meanwhile
      const std::function<void()> callback = found->second;
      callback();
    });
  }

  void PostError(absl::Status error) {
    if (loop == nullptr) return;
    loop->Post([weak = callbacks, error = std::move(error)] {
      const std::shared_ptr<Callbacks> alive = weak.lock();
      if (alive != nullptr) alive->on_error(error);
    });
  }
};

WriterThread::WriterThread(EventLoop* loop, ErrorHandler on_error)
    : callbacks_(std::make_shared<Callbacks>()), state_(std::make_shared<State>(loop, callbacks_)) {
  callbacks_->on_error = std::move(on_error);
}

WriterThread::~WriterThread() {
  Flush(std::chrono::steady_clock::now() + kDestructorGrace);
  {
    const std::lock_guard lock(state_->mutex);
    state_->loop = nullptr;
  }
  tasks_.CloseWithin(std::chrono::milliseconds(100));
}

void WriterThread::Schedule(FileId id, File* file) {
  if (std::exchange(file->scheduled, true)) return;
  tasks_.Post([state = state_, id] { Serve(state.get(), id); });
}

WriterThread::FileId WriterThread::Open(std::string path, std::function<void()> on_drained) {
  const FileId id = next_file_++;
  callbacks_->on_drained[id] = std::move(on_drained);
  auto file = std::make_unique<File>();
  file->path = std::move(path);
  const std::lock_guard lock(state_->mutex);
  Schedule(id, file.get());
  state_->files[id] = std::move(file);
  return id;
}

bool WriterThread::Write(FileId id, std::string_view bytes) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->files.find(id);
  Check(found != state_->files.end(), "WriterThread::Write: the file is not open");
  File* const file = found->second.get();
  if (file->failed || bytes.empty()) return true;
  file->pending.append(bytes);
  file->queued += bytes.size();
  state_->peak = std::max(state_->peak, file->queued);
  Schedule(id, file);
  if (file->queued <= kHighWater) return true;
  file->over = true;
  return false;
}

void WriterThread::Close(FileId id) {
  callbacks_->on_drained.erase(id);
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->files.find(id);
  Check(found != state_->files.end(), "WriterThread::Close: the file is not open");
  found->second->closing = true;
  Schedule(id, found->second.get());
}

bool WriterThread::Flush(std::chrono::steady_clock::time_point deadline) {
  return tasks_.WaitUntil(deadline);
}

std::size_t WriterThread::PeakQueuedBytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak;
}

// Writes what is queued for one file. The lock is never held across a system call that may block,
// close() included: the loop takes it in Write().
void WriterThread::Serve(State* state, FileId id) {
  std::unique_lock lock(state->mutex);
  const auto found = state->files.find(id);
  if (found == state->files.end()) return;  // the task before wrote what was left, and closed it
  File* const file = found->second.get();   // erased below only
  file->scheduled = false;
  const bool failed_before = file->failed;
  std::string bytes = std::move(file->pending);
  file->pending = std::string();
  lock.unlock();

  absl::Status status;
  if (!failed_before && !file->fd.valid()) status = OpenForAppend(file->path, &file->fd);
  if (!failed_before && status.ok()) status = WriteAll(file->path, file->fd.get(), bytes);

  lock.lock();
  file->queued -= bytes.size();
  if (!status.ok()) {
    file->failed = true;
    file->queued -= std::exchange(file->pending, {}).size();
    state->PostError(std::move(status));
  }
  if (file->over && file->queued <= kLowWater) {
    file->over = false;
    state->PostDrained(id);
  }
  if (file->pending.empty() && bytes.capacity() <= kBufferToKeep) {
    bytes.clear();
    file->pending = std::move(bytes);  // its memory serves again
  }
  if (file->closing && file->queued == 0) {
    const std::unique_ptr<File> gone = std::move(state->files.at(id));
    state->files.erase(id);
    lock.unlock();  // then `gone` closes the file
  }
}

}  // namespace ddprun
