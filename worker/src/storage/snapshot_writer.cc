#include "worker/src/storage/snapshot_writer.h"

#include <time.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "worker/contract/control.h"
#include "worker/src/agent/control_client.h"

namespace ddp::internal {
namespace {

std::chrono::nanoseconds ThreadTime() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

SnapshotWriter::SnapshotWriter(std::string folder, int rank, std::optional<std::int64_t> keep_step,
                               Published published)
    : rank_(rank), published_(std::move(published)), slots_(std::move(folder), keep_step) {}

void SnapshotWriter::GiveUp(const std::string& reason) {
  usable_ = false;
  ControlClient::Process().Send(ddprun::control::kSnapshotFailed, reason);
  Warn(rank_, "no snapshots in memory any more on this node: " + reason +
                  ". Training goes on; a restart resumes from a checkpoint or from another node");
}

void SnapshotWriter::Prepare(std::size_t bytes, std::function<void()> also) {
  thread_.Wait();
  thread_.Post([this, bytes, also = std::move(also)] {
    try {
      slots_.Prepare(bytes);
      if (also != nullptr) also();
      prepared_ = true;
    } catch (const std::exception& e) {
      GiveUp(e.what());
    }
  });
}

std::byte* SnapshotWriter::Begin(std::size_t bytes) {
  try {
    return slots_.Begin(bytes);
  } catch (const std::exception& e) {
    GiveUp(e.what());
    return nullptr;
  }
}

void SnapshotWriter::Publish(CheckpointImage image) {
  thread_.Wait();
  thread_.Post([this, image = std::move(image)]() mutable {
    const std::int64_t step = image.step;
    const auto begin = std::chrono::steady_clock::now();
    // Training also waits while a GPU copies.
    std::chrono::nanoseconds waited(0);
    std::chrono::nanoseconds start = ThreadTime();
    try {
      if (image.await != nullptr) {
        if (!image.await()) return;
        waited = std::chrono::steady_clock::now() - begin;
        start = ThreadTime();
      }
      slots_.Publish(std::move(image));
      newest_step_ = step;
      published_(step, std::chrono::steady_clock::now() - begin);
    } catch (const std::exception& e) {
      GiveUp(e.what());
    }
    background_ns_ = (waited + ThreadTime() - start).count();
  });
}

std::chrono::nanoseconds SnapshotWriter::background_time() const {
  return std::chrono::nanoseconds(background_ns_.load());
}

}  // namespace ddp::internal
