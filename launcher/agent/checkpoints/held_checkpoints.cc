#include "launcher/agent/checkpoints/held_checkpoints.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/agent/worker_environment.h"
#include "launcher/log.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

// The log names a checkpoint folder that has not answered after this time.
constexpr std::chrono::seconds kScanWarning{1};
// The limit for releasing the folder at the end of the job. Without the release, the next job
// waits.
constexpr std::chrono::seconds kReleaseLimit{1};

}  // namespace

void HeldCheckpoints::OnSnapshot(Generation generation, std::int64_t step) {
  states_.OnSnapshot(config_.rendezvous.requeue_number, generation, step);
}

void HeldCheckpoints::OnCheckpoint(Generation generation, std::int64_t step,
                                   const std::string& path) {
  states_.OnCheckpoint(config_.rendezvous.requeue_number, generation, step, path);
}

void HeldCheckpoints::WatchOwner(std::function<void(std::string)> superseded) {
  if (!config_.place.has_later_lives || config_.checkpoint_dir.empty()) return;
  owner_watch_.emplace(
      loop_,
      OwnerWatch::Options{config_.checkpoint_dir,
                          LifeOf(config_.rendezvous.id, config_.rendezvous.requeue_number)},
      std::move(superseded));
}

void HeldCheckpoints::Scan(RunId run_id, std::function<void()> done) {
  ScanRequest request{config_.rendezvous.id,
                      config_.checkpoint_dir,
                      states_.files(),
                      config_.rendezvous.requeue_number,
                      config_.spec.start_anew,
                      before_,
                      run_id == sorted_for_ ? "" : RunIdText(run_id)};
  if (request.folder.empty() && request.named.empty()) return done();
  EndScan();
  scan_warning_ = loop_->AddTimer(EventLoop::Clock::now() + kScanWarning, [this] {
    LogWarning(absl::StrCat("the folder of checkpoints has not answered for ",
                            Seconds(kScanWarning), config_.checkpoint_dir.empty() ? "" : ": ",
                            config_.checkpoint_dir,
                            "; the job waits for it if it may hold the newest state, at most ",
                            Seconds(config_.spec.join_timeout)));
  });
  scan_.emplace(loop_, std::move(request),
                [this, run_id, done = std::move(done)](ScanResult result) {
                  EndScan();
                  OnScanned(run_id, std::move(result));
                  done();
                });
}

void HeldCheckpoints::EndScan() {
  loop_->CancelTimer(std::exchange(scan_warning_, 0));
  scan_.reset();
}

void HeldCheckpoints::OnScanned(RunId run_id, ScanResult result) {
  for (const std::string& problem : result.problems) {
    if (problems_.insert(problem).second) LogWarning(problem);
  }
  // An incomplete scan does not know all files of the run, so the next scan sorts them again.
  const bool sorted = run_id != sorted_for_ && !result.incomplete;
  if (config_.spec.start_anew && (!before_ || sorted)) before_ = std::move(result.before);
  if (sorted) sorted_for_ = run_id;
  states_.OnFound(std::move(result.files), result.incomplete);
}

bool HeldCheckpoints::Release(const CheckpointOwner& holder, std::function<void()> done) {
  if (config_.checkpoint_dir.empty()) return false;
  loop_->AddTimer(EventLoop::Clock::now() + kReleaseLimit, done);
  releasing_.emplace(loop_, "ddprun-release");
  releasing_->Run(
      [folder = config_.checkpoint_dir, holder] {
        ReleaseFolder(folder, holder);
        return true;
      },
      [done = std::move(done)](bool) { done(); });
  return true;
}

}  // namespace ddprun
