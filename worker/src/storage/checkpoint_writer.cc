#include "worker/src/storage/checkpoint_writer.h"

#include <ddp/errors.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "worker/src/storage/lineage.h"
#include "worker/src/storage/set_aside.h"

namespace ddp::internal {
namespace {

// The warning's text: the reason, the newest checkpoint, and what happens next.
std::string Explain(std::int64_t step, const std::string& reason, const SaveStatus& status) {
  return "checkpoint of step " + std::to_string(step) + " is not saved: " + reason +
         ". Training goes on; " +
         (status.saved == 0 ? "this run has saved none yet, and older files are as they were"
                            : "the newest checkpoint is " + status.durable_path) +
         "; the next save tries again. Failed so far: " + std::to_string(status.failed);
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string directory, Retention retention, Events events,
                                   std::optional<ddprun::CheckpointOwner> self,
                                   FolderOwnerOptions owner)
    : directory_(std::move(directory)),
      retention_(retention),
      events_(std::move(events)),
      owner_(directory_, std::move(self), owner) {}

bool CheckpointWriter::TryClaim() {
  thread_.Wait();
  return owner_.TryClaim();
}

void CheckpointWriter::Release() {
  thread_.Wait();
  owner_.Release();
}

void CheckpointWriter::Start(CheckpointImage image) {
  thread_.Wait();
  thread_.Post([this, image = std::move(image)]() mutable { Write(std::move(image)); });
}

bool CheckpointWriter::busy() const { return !thread_.idle(); }

void CheckpointWriter::Wait() { thread_.Wait(); }

SaveStatus CheckpointWriter::status() const {
  const bool writing = busy();  // read first: if it is false, status_ is final
  const std::lock_guard<std::mutex> lock(mutex_);
  SaveStatus status = status_;
  status.writing = writing;
  return status;
}

bool CheckpointWriter::HasSaved(std::int64_t step) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return saved_.count(step) != 0;
}

void CheckpointWriter::CountSkipped() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++status_.skipped;
}

void CheckpointWriter::Fail(std::int64_t step, const std::string& reason) {
  SaveStatus status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++status_.failed;
    status_.error = reason;
    status = status_;
  }
  Warn(0, Explain(step, reason, status));
  events_.failed(step, status.failed, reason);
}

void CheckpointWriter::Write(CheckpointImage image) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t step = image.step;
  std::error_code ignored;
  if (folder_was_there_ && !std::filesystem::exists(directory_, ignored)) {
    Warn(0, "the checkpoint folder " + directory_ +
                " has vanished, and with it the checkpoints that were there; making it anew");
  }
  const Lineage lineage = Lineage::Of(image.metadata);
  std::string path;
  try {
    if (image.await != nullptr && !image.await()) return;
    path = SaveCheckpoint(directory_, std::move(image), &owner_);
  } catch (const std::exception& e) {
    Fail(step, e.what());
    return;
  }
  folder_was_there_ = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++status_.saved;
    saved_.insert(step);
    status_.durable_step = step;
    status_.durable_path = path;
    status_.error.clear();
  }
  events_.durable(step, path, std::chrono::steady_clock::now() - start);
  try {
    owner_.Guard([&] {
      RemoveOldCheckpoints(directory_, step, retention_, lineage);
      RemoveOldSetAside(directory_, lineage.run());
    });
  } catch (const std::exception& e) {
    Warn(0, std::string("old checkpoints are not removed: ") + e.what());
  }
}

}  // namespace ddp::internal
