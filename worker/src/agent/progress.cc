#include "worker/src/agent/progress.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "worker/contract/unique_fd.h"
#include "worker/src/agent/death_notice.h"

namespace ddp::internal {
namespace {

using ddprun::ProgressPage;

// Null: this is no page to which a worker may write.
ProgressPage* Map(const ddprun::UniqueFd& fd) {
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
  struct stat status = {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return nullptr;
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kNeeded) != kNeeded) return nullptr;
  if (status.st_size < static_cast<off_t>(ddprun::kProgressFileBytes)) return nullptr;
  void* const page =
      mmap(nullptr, ddprun::kProgressFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  return page == MAP_FAILED ? nullptr : static_cast<ProgressPage*>(page);
}

}  // namespace

Progress& Progress::Process() {
  static Progress* const progress = [] {
    const char* const set = std::getenv(kSwitch);
    return new Progress(set == nullptr || std::string_view(set) != "off");
  }();
  return *progress;
}

Progress::Progress(bool enabled) : enabled_(enabled) {}

void Progress::TakePage(ControlClient* agent, std::chrono::milliseconds patience) {
  if (!enabled_ || has_page_.load(std::memory_order_relaxed)) return;
  ProgressPage* const page = Map(agent->TakeProgressPage(patience));
  if (page == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_page_.exchange(true)) return;  // another thread has taken it
  writer_.MoveTo(page);
  DeathNotice::Process().SetPage(page);
  LetGoOfPage();
  page_ = page;
}

void Progress::LetGoOfPage() {
  if (page_ == own_page_.get()) return;
  munmap(const_cast<ProgressPage*>(page_), ddprun::kProgressFileBytes);
}

void Progress::BeginGeneration(std::int64_t generation) {
  if (!enabled_) return;
  groups_ = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_page_ = false;  // the agent makes a new page for each generation
  }
  writer_.BeginGeneration(generation);
  SetStage(ProgressPhase::kInit);
}

void Progress::SetStage(ProgressPhase stage, const std::string& name) {
  if (!enabled_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  stage_ = {stage, name};
  awaits_data_ = false;
  Publish();
}

void Progress::FinishStep(std::int64_t step) {
  if (!enabled_) return;
  writer_.SetStep(step);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stage_.phase == ProgressPhase::kStep && !awaits_data_) return;
  stage_ = {ProgressPhase::kStep, ""};
  awaits_data_ = false;
  Publish();
}

void Progress::FinishBackward() {
  if (!enabled_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stage_.phase == ProgressPhase::kFirstStep) stage_ = {ProgressPhase::kStep, ""};
  Publish();
}

void Progress::SetInOptimizerStep(bool inside) {
  if (enabled_) writer_.SetInOptimizerStep(inside);
}

void Progress::Move() {
  if (enabled_) writer_.Move();
}

void Progress::AwaitData() {
  if (!enabled_) return;
  if (awaits_data_.load(std::memory_order_relaxed)) return writer_.Move();
  const std::lock_guard<std::mutex> lock(mutex_);
  awaits_data_ = true;
  Publish();
}

void Progress::DataIsThere() {
  if (!awaits_data_.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!awaits_data_.exchange(false)) return;
  Publish();
}

std::size_t Progress::NewGroup() { return groups_++; }

std::uint64_t Progress::Enter(std::size_t group, ProgressOperation operation, std::uint64_t bytes,
                              std::optional<std::uint32_t> bucket) {
  if (!enabled_) return 0;
  DataIsThere();
  return writer_.Enter(group, operation, bytes, bucket);
}

void Progress::Complete(std::size_t group, std::uint64_t number, ProgressOperation operation,
                        std::uint64_t bytes) {
  if (enabled_) writer_.Complete(group, number, operation, bytes);
}

void Progress::Push(Named phase) {
  if (!enabled_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  scopes_.push_back(std::move(phase));
  Publish();
}

void Progress::Pop() {
  if (!enabled_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  scopes_.pop_back();
  awaits_data_ = false;
  Publish();
}

void Progress::Publish() {
  const bool in_steps =
      stage_.phase == ProgressPhase::kStep || stage_.phase == ProgressPhase::kFirstStep;
  Named now = !scopes_.empty()           ? scopes_.back()
              : awaits_data_ && in_steps ? Named{ProgressPhase::kData, ""}
                                         : stage_;
  if (now.phase == published_.phase && now.name == published_.name) return writer_.Move();
  published_ = std::move(now);
  writer_.SetPhase(published_.phase, published_.name);
}

Progress::Scope::Scope(ProgressPhase phase, std::string name, Progress* progress)
    : progress_(progress) {
  progress_->Push({phase, std::move(name)});
}

Progress::Scope::~Scope() { progress_->Pop(); }

ddprun::ProgressSnapshot Progress::Read() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ddprun::ReadProgress(page_, sizeof(ProgressPage)).value_or(ddprun::ProgressSnapshot());
}

}  // namespace ddp::internal
