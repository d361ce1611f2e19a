#include "worker/src/checkpoint_writer.h"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

namespace ddp::internal {
namespace {

// What a person needs to know who reads it at 3 a.m.
std::string Explain(std::int64_t step, const std::string& reason, const SaveStatus& status) {
  return "checkpoint of step " + std::to_string(step) + " is not saved: " + reason +
         ". Training goes on; " +
         (status.saved == 0 ? "this run has saved none yet, and older files are as they were"
                            : "the newest checkpoint is " + status.durable_path) +
         "; the next save tries again. Failed so far: " + std::to_string(status.failed);
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::string directory, Retention retention, Events events)
    : directory_(std::move(directory)), retention_(retention), events_(std::move(events)) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::Start(CheckpointImage image) {
  Wait();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_ = std::move(image);
    status_.writing = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
}

bool CheckpointWriter::busy() const { return status().writing; }

void CheckpointWriter::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !status_.writing; });
}

SaveStatus CheckpointWriter::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
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
  WarnOnRank0(Explain(step, reason, status));
  events_.failed(step, status.failed, reason);
}

void CheckpointWriter::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || next_.has_value(); });
    if (!next_) return;
    CheckpointImage image = *std::exchange(next_, std::nullopt);
    lock.unlock();
    Write(std::move(image));
    lock.lock();
    status_.writing = false;
    changed_.notify_all();
  }
}

void CheckpointWriter::Write(CheckpointImage image) {
  const std::int64_t step = image.step;
  std::error_code ignored;
  if (folder_was_there_ && !std::filesystem::exists(directory_, ignored)) {
    WarnOnRank0("the checkpoint folder " + directory_ +
                " has vanished, and with it the checkpoints that were there; making it anew");
  }
  std::string path;
  try {
    path = SaveCheckpoint(directory_, std::move(image));
  } catch (const std::exception& e) {
    Fail(step, e.what());
    return;
  }
  folder_was_there_ = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++status_.saved;
    status_.durable_step = step;
    status_.durable_path = path;
    status_.error.clear();
  }
  events_.durable(step, path);
  try {
    RemoveOldCheckpoints(directory_, step, retention_);
  } catch (const std::exception& e) {
    WarnOnRank0(std::string("old checkpoints are not removed: ") + e.what());
  }
}

}  // namespace ddp::internal
