#include "launcher/agent/run/run_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/agent/run/hang_files.h"
#include "launcher/agent/worker_postmortem.h"
#include "launcher/log.h"
#include "launcher/text/error_file.h"

namespace ddprun {
namespace {

// The limit for reading a failed worker's error file: long for a disk, short compared to a lease.
constexpr std::chrono::milliseconds kErrorFileLimit{500};
// The log disk may be full when workers start. Making the folders is retried with these delays
// until kFolderLimit, so that a person can make room.
constexpr std::chrono::milliseconds kFirstFolderRetry{100};
constexpr std::chrono::milliseconds kLastFolderRetry{5000};
constexpr std::chrono::minutes kFolderLimit{2};

}  // namespace

void RunFiles::MakeFolders(Generation generation, Rank first_rank, int workers,
                           std::function<void(const MadeFolders&)> done) {
  const auto give_up = EventLoop::Clock::now() + kFolderLimit;
  TryFolders({generation, first_rank, workers, give_up, std::move(done)}, kFirstFolderRetry);
}

void RunFiles::TryFolders(const FoldersRequest& request, std::chrono::milliseconds pause) {
  disk_.Run(
      [path = run_.path(), request] {
        return MakeWorkerFolders(path, request.generation, request.first_rank, request.workers);
      },
      [this, request, pause](const MadeFolders& made) {
        const auto next = EventLoop::Clock::now() + pause;
        if (!made.full || next > request.give_up) return request.done(made);
        if (pause == kFirstFolderRetry) {
          LogWarning(absl::StrCat(made.error,
                                  "; the workers of this node start when there is room; ",
                                  "if there is none for ", kFolderLimit.count(), " min they fail"));
        }
        loop_->AddTimer(next, [this, request, pause] {
          TryFolders(request, std::min(2 * pause, kLastFolderRetry));
        });
      });
}

void RunFiles::ReadErrorFileOf(Generation generation, LocalRank local_rank,
                               std::function<void(const std::string& text)> done) {
  const auto limit =
      loop_->AddTimer(EventLoop::Clock::now() + kErrorFileLimit, [done] { done(""); });
  disk_.Run([path = run_.ErrorFile(generation, local_rank)] { return ReadErrorFile(path); },
            [this, generation, local_rank, limit, done](const std::string& content) {
              loop_->CancelTimer(limit);
              error_files_.Add(generation, local_rank, content);
              done(ParseErrorFile(content).message);
            });
}

std::string RunFiles::HangStacksPath(Generation generation) const {
  return HangTextPath(run_.path(), generation);
}

void RunFiles::WriteHangStacks(const HangStacks& stacks, const std::string& job,
                               Generation generation) {
  disk_.Run([folder = run_.path(), stacks, job, generation] {
    const absl::Status written = WriteHangFiles(folder, stacks, job, generation);
    if (!written.ok()) LogWarning(written.message());
  });
}

}  // namespace ddprun
