#include "launcher/os/output/writer_thread.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/os/check.h"
#include "launcher/os/output/log_file.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kDestructorGrace{2000};
constexpr std::size_t kBufferToKeep = 256 << 10;  // a larger one is freed after a flood
constexpr std::chrono::milliseconds kFirstRetry{100};
constexpr std::chrono::milliseconds kLastRetry{5000};
constexpr int kRetriesOfClosedFile = 12;

bool IsFull(const absl::Status& status) {
  // absl maps both ENOSPC and EDQUOT to it.
  return absl::IsResourceExhausted(status);
}

}  // namespace

struct WriterThread::File {
  File(std::string path, std::uint64_t max_bytes) : log(std::move(path), max_bytes) {}

  LogFile log;             // the writer's thread only, but for its path
  std::string pending;     // guarded by State::mutex, like all that follows
  std::size_t queued = 0;  // pending bytes and those being written
  bool over = false;       // Write() returned false
  bool scheduled = false;  // a task for it is queued
  bool closing = false;
  bool failed = false;
  int retries = 0;          // since the disk is full; 0: it is not
  std::size_t missing = 0;  // bytes dropped; further ones are, too, until `pending` is written
};

struct WriterThread::Callbacks {  // the loop's thread only
  ErrorHandler on_error;
  std::function<void(FileId, std::chrono::milliseconds)> retry_later;
  std::unordered_map<FileId, std::function<void()>> on_room;
};

struct WriterThread::State {
  State(EventLoop* loop, std::weak_ptr<Callbacks> callbacks, const Options& options)
      : callbacks(std::move(callbacks)),
        written(options.written == nullptr ? std::make_shared<WrittenFiles>() : options.written),
        drops(options.when_full == WhenFull::kDrop),
        loop(loop) {}

  const std::weak_ptr<Callbacks> callbacks;
  const std::shared_ptr<WrittenFiles> written;  // never null
  const bool drops;                             // on a full disk
  std::mutex mutex;
  // Guarded by mutex.
  EventLoop* loop;  // nullptr when the WriterThread is gone
  std::unordered_map<FileId, std::unique_ptr<File>> files;
  std::size_t peak = 0;
  std::uint64_t dropped = 0;  // in bytes, of all files

  void PostRoom(FileId id) {
    if (loop == nullptr) return;
    loop->Post([weak = callbacks, id] {
      const std::shared_ptr<Callbacks> alive = weak.lock();
      if (alive == nullptr) return;
      const auto found = alive->on_room.find(id);
      if (found == alive->on_room.end()) return;  // closed meanwhile
      const std::function<void()> callback = found->second;
      callback();
    });
  }

  void PostRetry(FileId id, std::chrono::milliseconds delay) {
    if (loop == nullptr) return;
    loop->Post([weak = callbacks, id, delay] {
      const std::shared_ptr<Callbacks> alive = weak.lock();
      if (alive != nullptr) alive->retry_later(id, delay);
    });
  }

  void RetryFull(FileId id, File* file, const absl::Status& status) {
    if (file->retries == 0) {
      PostError(absl::ResourceExhaustedError(absl::StrCat(
          status.message(), "; the write is tried again until there is room; until then output ",
          drops ? "beyond 4 MiB is lost" : "beyond 4 MiB makes its worker wait")));
    }
    if (drops && std::exchange(file->over, false)) PostRoom(id);  // nobody has to wait for the disk
    PostRetry(id, std::min(kLastRetry, kFirstRetry * (1 << std::min(file->retries, 10))));
    ++file->retries;
  }

  void EndFull(File* file) {
    file->retries = 0;
    const std::size_t missing = std::exchange(file->missing, 0);
    if (missing > 0) {
      absl::StrAppend(&file->pending, "\n[ddprun: the disk was full; ", missing,
                      " bytes are missing here]\n");
    }
    PostError(absl::DataLossError(
        absl::StrCat("there is room again for log file ", file->log.path(), "; ",
                     missing == 0 ? "nothing" : absl::StrCat(missing, " bytes"), " of it ",
                     missing == 0 ? "is" : "are", " missing")));
  }

  void GiveUp(File* file, const absl::Status& status) {
    const std::size_t missing = file->missing + file->pending.size();
    file->failed = true;
    dropped += file->pending.size();
    file->pending.clear();
    PostError(file->retries == 0 ? status
                                 : absl::DataLossError(absl::StrCat(
                                       status.message(), "; ddprun has stopped trying; ", missing,
                                       " bytes are missing")));
    file->retries = 0;
  }

  void PostError(absl::Status error) {
    if (loop == nullptr) return;
    loop->Post([weak = callbacks, error = std::move(error)] {
      const std::shared_ptr<Callbacks> alive = weak.lock();
      if (alive != nullptr) alive->on_error(error);
    });
  }
};

WriterThread::WriterThread(EventLoop* loop, ErrorHandler on_error, Options options)
    : max_file_bytes_(options.max_file_bytes),
      callbacks_(std::make_shared<Callbacks>()),
      state_(std::make_shared<State>(loop, callbacks_, options)) {
  callbacks_->on_error = std::move(on_error);
  callbacks_->retry_later = [this](FileId id, std::chrono::milliseconds delay) {
    RetryLater(id, delay);
  };
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

void WriterThread::RetryLater(FileId id, std::chrono::milliseconds delay) {
  const std::lock_guard lock(state_->mutex);
  state_->loop->AddTimer(EventLoop::Clock::now() + delay,
                         [this, id, weak = std::weak_ptr<Callbacks>(callbacks_)] {
                           if (weak.expired()) return;  // this object is gone
                           const std::lock_guard lock(state_->mutex);
                           const auto found = state_->files.find(id);
                           if (found != state_->files.end()) Schedule(id, found->second.get());
                         });
}

WriterThread::FileId WriterThread::Open(std::string path, std::function<void()> on_room) {
  const FileId id = next_file_++;
  callbacks_->on_room[id] = std::move(on_room);
  state_->written->Opened(path);
  auto file = std::make_unique<File>(std::move(path), max_file_bytes_);
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
  if (file->failed) state_->dropped += bytes.size();
  if (file->failed || bytes.empty()) return true;
  if (file->retries > 0 && state_->drops &&
      (file->missing > 0 || file->queued + bytes.size() > kHighWater)) {
    file->missing += bytes.size();
    state_->dropped += bytes.size();
    return true;
  }
  file->pending.append(bytes);
  file->queued += bytes.size();
  state_->peak = std::max(state_->peak, file->queued);
  if (file->retries == 0) Schedule(id, file);
  if (file->queued <= kHighWater) return true;
  file->over = true;
  return false;
}

void WriterThread::Close(FileId id) {
  callbacks_->on_room.erase(id);
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->files.find(id);
  Check(found != state_->files.end(), "WriterThread::Close: the file is not open");
  found->second->closing = true;
  if (found->second->retries == 0) Schedule(id, found->second.get());
}

bool WriterThread::Flush(std::chrono::steady_clock::time_point deadline) {
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [id, file] : state_->files) {
      if (file->retries > 0) Schedule(id, file.get());
    }
  }
  if (!tasks_.WaitUntil(deadline)) return false;
  const std::lock_guard lock(state_->mutex);
  return std::none_of(state_->files.begin(), state_->files.end(),
                      [](const auto& file) { return file.second->queued > 0; });
}

std::uint64_t WriterThread::bytes_dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

std::size_t WriterThread::PeakQueuedBytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak;
}

// Writes the queue of one file.
void WriterThread::Serve(State* state, FileId id) {
  std::unique_lock lock(state->mutex);
  const auto found = state->files.find(id);
  if (found == state->files.end()) return;  // the previous task wrote the rest and closed it
  File* const file = found->second.get();   // erased below only
  file->scheduled = false;
  do {
    WriteQueued(state, id, file, &lock);
  } while (!file->pending.empty() && file->retries == 0 && !file->scheduled);
  if (file->over && file->queued <= kLowWater) {
    file->over = false;
    state->PostRoom(id);
  }
  if (file->closing && file->queued == 0 && file->retries == 0) {
    const std::unique_ptr<File> gone = std::move(state->files.at(id));
    state->files.erase(id);
    lock.unlock();  // without the lock `gone` closes the file
    state->written->Closed(gone->log.path());
  }
}

// Never holds the lock across a system call that may block, close() included, because the loop
// takes the lock in Write().
void WriterThread::WriteQueued(State* state, FileId id, File* file,
                               std::unique_lock<std::mutex>* lock) {
  const bool failed_before = file->failed;
  std::string bytes = std::exchange(file->pending, {});
  lock->unlock();
  absl::Status status;
  absl::Status cannot_rename;
  const std::size_t queued = bytes.size();
  if (!failed_before) {
    status = file->log.Append(&bytes, &cannot_rename);
    state->written->Wrote(file->log.path(), queued - bytes.size(), EventLoop::Clock::now());
  }
  lock->lock();
  file->pending.insert(0, bytes);
  if (!cannot_rename.ok()) {
    state->PostError(absl::Status(
        cannot_rename.code(),
        absl::StrCat(cannot_rename.message(), "; from now on it grows beyond logs.max_size")));
  }
  if (status.ok()) {
    if (file->retries > 0) state->EndFull(file);
  } else if (IsFull(status) && !(file->closing && file->retries >= kRetriesOfClosedFile)) {
    state->RetryFull(id, file, status);
  } else {
    state->GiveUp(file, status);
  }
  file->queued = file->pending.size();
  if (file->pending.empty() && bytes.capacity() <= kBufferToKeep) {
    bytes.clear();
    file->pending = std::move(bytes);  // reuses its memory
  }
}

}  // namespace ddprun
