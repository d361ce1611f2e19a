#include "launcher/os/writer_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
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
  bool scheduled = false;  // its id is in State::ready
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
  std::condition_variable work;
  std::condition_variable idle;
  // Guarded by mutex.
  EventLoop* loop;  // nullptr when the WriterThread is gone
  std::unordered_map<FileId, std::unique_ptr<File>> files;
  std::deque<FileId> ready;
  bool busy = false;
  bool stop = false;
  std::size_t peak = 0;

  void Schedule(FileId id, File* file) {
    if (std::exchange(file->scheduled, true)) return;
    ready.push_back(id);
    work.notify_one();
  }

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
    : callbacks_(std::make_shared<Callbacks>()),
      state_(std::make_shared<State>(loop, callbacks_)),
      thread_("ddprun-logs", [state = state_] { Main(state.get()); }) {
  callbacks_->on_error = std::move(on_error);
}

WriterThread::~WriterThread() {
  Flush(std::chrono::steady_clock::now() + kDestructorGrace);
  {
    const std::lock_guard lock(state_->mutex);
    state_->loop = nullptr;
    state_->stop = true;
    state_->work.notify_one();
  }
  thread_.JoinWithin(std::chrono::milliseconds(100));
}

WriterThread::FileId WriterThread::Open(std::string path, std::function<void()> on_drained) {
  const FileId id = next_file_++;
  callbacks_->on_drained[id] = std::move(on_drained);
  auto file = std::make_unique<File>();
  file->path = std::move(path);
  const std::lock_guard lock(state_->mutex);
  state_->Schedule(id, file.get());
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
  state_->Schedule(id, file);
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
  state_->Schedule(id, found->second.get());
}

bool WriterThread::Flush(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  return state_->idle.wait_until(lock, deadline,
                                 [this] { return state_->ready.empty() && !state_->busy; });
}

std::size_t WriterThread::PeakQueuedBytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak;
}

void WriterThread::Main(State* state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->work.wait(lock, [state] { return !state->ready.empty() || state->stop; });
    if (state->ready.empty()) return;  // told to stop, and all is written
    const FileId id = state->ready.front();
    state->ready.pop_front();
    state->busy = true;
    lock.unlock();
    Serve(state, id);
    lock.lock();
    state->busy = false;
    if (state->ready.empty()) state->idle.notify_all();
  }
}

// Writes what is queued for one file. The lock is never held across a system call that may block,
// close() included: the loop takes it in Write().
void WriterThread::Serve(State* state, FileId id) {
  std::unique_lock lock(state->mutex);
  File* const file = state->files.at(id).get();  // erased below only
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
    if (file->scheduled) std::erase(state->ready, id);
    lock.unlock();  // then `gone` closes the file
  }
}

}  // namespace ddprun
