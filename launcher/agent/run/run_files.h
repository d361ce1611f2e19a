// RunFiles: the files of one run that the agent makes and reads while workers run: folders, error
// files, stacks of a hang, and log files for `ddprun logs`.
//
// Belongs to the agent and its loop's thread. Two other threads do the I/O: one reads log files for
// `ddprun logs`, the other does the rest.
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

  // Makes the folders of a generation's workers. If the disk is full, retries for 2 min. Calls
  // `done` also after a failure. Waits without a limit for a disk that does not answer.
  void MakeFolders(Generation generation, Rank first_rank, int workers,
                   std::function<void(const MadeFolders&)> done);

  // Call it when the workers of a generation start. Forgets the earlier error files.
  void BeginGeneration(Generation generation, Rank first_rank) {
    error_files_.Begin(generation, first_rank);
  }
  // Reads the error file of a failed worker. `text`: the message in this file; "": there is none.
  // If the disk needs more than 0.5 s, `done` is called twice: after 0.5 s with "", later with the
  // message.
  void ReadErrorFileOf(Generation generation, LocalRank local_rank,
                       std::function<void(const std::string& text)> done);
  // The content of the root cause's error file; "": there is none in this generation on this node.
  std::string ErrorFileOf(const RootCause& cause) const { return error_files_.Of(cause); }

  // Writes the stacks beside the workers' folders: hang_files.h.
  void WriteHangStacks(const HangStacks& stacks, const std::string& job, Generation generation);
  std::string HangStacksPath(Generation generation) const;

  // The disk thread, for other work that must come before or after the work of this class.
  OffLoop* disk() { return &disk_; }

  // logs() reads the workers' log files for `ddprun logs`. written() is the WriterThread's record
  // of its writes to these files.
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
  // Retries after `pause`, which doubles each time.
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
