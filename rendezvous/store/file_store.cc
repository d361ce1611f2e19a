#include "rendezvous/store/file_store.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "rendezvous/store/batches.h"
#include "rendezvous/store/posix_file_system.h"

namespace ddprun {

struct FileStore::State {
  struct Group {
    std::vector<Batch> batches;
    std::vector<Done> dones;
    std::size_t bytes = 0;
  };

  State(Options options, Log log, std::shared_ptr<FileSystem> files)
      : options(std::move(options)), files(std::move(files)), log(std::move(log)) {}

  // Writes until the queue is empty.
  void WriteQueued();
  // Retries until the outcome is kKept or kLostRight. kFailed: the store is stopping, and the last
  // try failed.
  Outcome WriteUntilClear(const std::vector<Done>& dones);
  void Compact();
  void LogLine(std::string_view text);
  void CallAll(const std::vector<Done>& dones, Outcome outcome);

  const Options options;
  const std::shared_ptr<FileSystem> files;

  // Used by the caller of Load until Load has returned, then by the thread only.
  std::unique_ptr<JournalWriter> writer;
  bool compaction_fails = false;
  bool lost_right = false;

  // Held during callbacks to the owner, and to stop them. Lock order: before `mutex`.
  std::mutex callback_mutex;
  Log log;              // guarded by callback_mutex
  bool silent = false;  // guarded by callback_mutex

  mutable std::mutex mutex;
  std::condition_variable stopped;
  // Guarded by mutex.
  Group queue;
  std::size_t merge_above = 0;
  bool scheduled = false;  // a task will write the queue
  bool stop = false;
};

FileStore::FileStore(Options options, Log log, std::shared_ptr<FileSystem> files)
    : state_(std::make_shared<State>(
          std::move(options), std::move(log),
          files != nullptr ? std::move(files) : std::make_shared<PosixFileSystem>())) {
  state_->merge_above = state_->options.merge_above_bytes;
}

FileStore::~FileStore() {
  {
    const std::lock_guard lock(state_->callback_mutex);
    state_->silent = true;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->stopped.notify_all();
  }
  tasks_.Post([state = state_] { state->writer.reset(); });  // releases the folder's lock
  tasks_.CloseWithin(state_->options.close_grace);
}

absl::StatusOr<std::map<std::string, std::string>> FileStore::Load() {
  DDPRUN_CHECK(state_->writer == nullptr, "FileStore::Load is called once");
  auto writer = JournalWriter::Open(state_->files.get(), state_->options.journal);
  if (!writer.ok()) return writer.status();
  state_->writer = *std::move(writer);
  if (const std::uint64_t torn = state_->writer->torn_bytes(); torn > 0) {
    state_->LogLine(absl::StrCat(state_->writer->path(), ": cut ", torn,
                                 " bytes off its end, of a write that was interrupted"));
  }
  return state_->writer->entries();
}

void FileStore::Commit(Batch batch, Done done) {
  DDPRUN_CHECK(state_->writer != nullptr, "FileStore::Commit comes after Load");
  const std::size_t bytes = BytesOf(batch);
  const std::lock_guard lock(state_->mutex);
  State::Group& queue = state_->queue;
  queue.batches.push_back(std::move(batch));
  queue.dones.push_back(std::move(done));
  queue.bytes += bytes;
  if (queue.bytes > state_->merge_above) {
    Batch merged = Merge(queue.batches);
    queue.bytes = BytesOf(merged);
    queue.batches.push_back(std::move(merged));
    // Merge again only when the queue has doubled, so that merging stays cheap for committers.
    state_->merge_above = std::max(state_->options.merge_above_bytes, 2 * queue.bytes);
  }
  if (std::exchange(state_->scheduled, true)) return;
  tasks_.Post([state = state_] { state->WriteQueued(); });
}

std::size_t FileStore::QueuedBytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.bytes;
}

void FileStore::State::LogLine(std::string_view text) {
  const std::lock_guard lock(callback_mutex);
  if (!silent && log) log(text);
}

void FileStore::State::CallAll(const std::vector<Done>& dones, Outcome outcome) {
  const std::lock_guard lock(callback_mutex);
  for (const Done& done : dones) {
    if (!silent && done) done(outcome);
  }
}

void FileStore::State::WriteQueued() {
  std::unique_lock lock(mutex);
  while (!queue.batches.empty()) {
    Group group = std::exchange(queue, {});
    merge_above = options.merge_above_bytes;
    lock.unlock();

    for (const Batch& batch : group.batches) writer->Add(batch);
    group.batches = {};
    const Outcome outcome = WriteUntilClear(group.dones);
    if (outcome != Outcome::kFailed) CallAll(group.dones, outcome);
    const bool kept = outcome == Outcome::kKept;
    if (kept && writer->WorthCompacting()) Compact();

    lock.lock();
    if (outcome == Outcome::kFailed) return;
    if (kept && queue.batches.empty()) {
      lock.unlock();
      writer->Mark();
      lock.lock();
    }
  }
  scheduled = false;
}

Store::Outcome FileStore::State::WriteUntilClear(const std::vector<Done>& dones) {
  std::chrono::milliseconds pause = options.first_retry;
  for (int tries = 1;; ++tries) {
    const absl::Status status = writer->Write();
    if (status.ok()) {
      if (tries > 1) {
        LogLine(absl::StrCat(writer->path(), ": can be written again, after ", tries, " tries"));
      }
      return Outcome::kKept;
    }
    if (absl::IsAborted(status)) {
      if (!std::exchange(lost_right, true)) LogLine(absl::StrCat(status.message()));
      return Outcome::kLostRight;
    }
    if (tries == 1) {
      LogLine(absl::StrCat(status.message(),
                           ": nothing new is decided until the journal can be written again; "
                           "trying on. Make room on the disk, or repair it"));
      CallAll(dones, Outcome::kFailed);
    }
    std::unique_lock lock(mutex);
    if (stop || stopped.wait_for(lock, pause, [this] { return stop; })) return Outcome::kFailed;
    pause = std::min(2 * pause, options.last_retry);
  }
}

void FileStore::State::Compact() {
  const absl::Status status = writer->Compact();
  if (!status.ok() && !compaction_fails) {
    LogLine(absl::StrCat("cannot compact the journal, which keeps growing: ", status.message()));
  } else if (status.ok() && compaction_fails) {
    LogLine(absl::StrCat(writer->path(), ": compacted at last"));
  }
  compaction_fails = !status.ok();
}

}  // namespace ddprun
