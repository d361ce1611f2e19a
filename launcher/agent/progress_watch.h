// ProgressWatch: the progress of this node's workers, from their progress pages and their messages
// on the control socket. It does not judge hangs.
//
// Belongs to NodeWorkers and the loop's thread. Read() makes no system call.
#ifndef DDPRUN_LAUNCHER_AGENT_PROGRESS_WATCH_H_
#define DDPRUN_LAUNCHER_AGENT_PROGRESS_WATCH_H_

#include <optional>
#include <vector>

#include "launcher/core/worker_progress.h"
#include "launcher/os/process/process_id.h"
#include "launcher/os/progress_page_file.h"
#include "launcher/text/parse_control.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class ProgressWatch {
 public:
  explicit ProgressWatch(int workers) : workers_(workers) { BeginGeneration(Generation{0}); }

  // The workers of `generation` are about to start. Forgets the progress of all earlier workers.
  // Until then it is kept, also for dead workers. `will_tell`: all workers will report their steps,
  // as if each had sent TELLS=1.
  void BeginGeneration(Generation generation, bool will_tell = false);

  Generation generation() const { return generation_; }

  // A message of the worker. `speaker`: the process that sent it, the worker or one of its
  // descendants.
  void OnMessage(LocalRank local_rank, const ControlMessage& message, TimePoint now,
                 const ProcessId& speaker = {});

  // The process that does the rank's work: the process that sent the last STEP, PHASE or READY,
  // else the first process that sent any message. nullopt: no process sent a message, or the
  // process has ended.
  std::optional<ProcessId> SpeakerOf(LocalRank local_rank) const;

  // The descriptor of the worker's page; this object owns it. The first call makes the page. -1:
  // the page could not be made; this is logged once.
  int PageOf(LocalRank local_rank);

  // The progress of each worker, by local rank.
  std::vector<WorkerProgress> Read(TimePoint now);

 private:
  struct Worker {
    WorkerProgress told;  // by messages; but moved_at covers the page, too
    std::optional<ProgressPageFile> page;
    std::uint64_t seen_moves = 0;
    ProcessId speaker{};
  };

  Generation generation_;
  std::vector<Worker> workers_;
  bool said_why_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_PROGRESS_WATCH_H_
