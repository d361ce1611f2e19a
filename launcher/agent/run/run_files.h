// RunFiles: the files of one run that an agent makes and reads while workers run: their folders,
// their error files, the stacks at a hang, and their log files for `ddprun logs`.
//
// Belongs to the agent and its loop's thread. Disks are read and written on another thread.
#ifndef DDPRUN_LAUNCHER_AGENT_RUN_RUN_FILES_H_
#define DDPRUN_LAUNCHER_AGENT_RUN_RUN_FILES_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "launcher/agent/logs/log_reads.h"
#include "launcher/agent/run/run_directory.h"
#include "launcher/core/error_files.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "launcher/os/output/written_files.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class RunFiles {
 public:
  // Both must outlive this object.
  RunFiles(EventLoop* loop, const RunDirectory* run)
      : loop_(loop),
        run_(*run),
        disk_(loop, "ddprun-disk"),
        written_(std::make_shared<WrittenFiles>()),
        logs_({run->path()}, loop, written_) {}

  // Makes the folders of a generation's workers, and calls `done` however long it takes. Where the
  // disk is full it tries again for a while.
  void MakeFolders(Generation generation, Rank first_rank, int workers,
                   std::function<void(const MadeFolders&)> done);

  // The workers of a generation start: those of the one before have left their error files.
  void BeginGeneration(Generation generation, Rank first_rank) {
    error_files_.Begin(generation, first_rank);
  }
  // What a worker that has failed left in its error file, as one text; "": nothing, or it could not
  // be read in time.
  void ReadErrorFileOf(Generation generation, LocalRank local_rank,
                       std::function<void(const std::string& text)> done);
  // All that the root cause left there; "": nothing, or it ran elsewhere.
  std::string ErrorFileOf(const RootCause& cause) const { return error_files_.Of(cause); }

  // Writes them beside the workers' folders: hang_files.h.
  void WriteHangStacks(const HangStacks& stacks, const std::string& job, Generation generation);
  std::string HangStacksPath(Generation generation) const;

  // For whoever else has something to do there, in the same order.
  OffLoop* disk() { return &disk_; }

  // The workers' log files, for those who read them from afar; and what is written to them, which
  // the WriterThread tells.
  LogReads& logs() { return logs_; }
  const std::shared_ptr<WrittenFiles>& written() const { return written_; }

 private:
  struct FoldersRequest {
    Generation generation;
    Rank first_rank;
    int workers = 0;
    EventLoop::Clock::time_point give_up;
    std::function<void(const MadeFolders&)> done;
  };
  // Tries again after `pause`, which doubles.
  void TryFolders(const FoldersRequest& request, std::chrono::milliseconds pause);

  EventLoop* const loop_;
  const RunDirectory& run_;
  ErrorFiles error_files_;
  OffLoop disk_;
  const std::shared_ptr<WrittenFiles> written_;
  LogReads logs_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RUN_RUN_FILES_H_
