// ProgressWatch: how far this node's workers are, from their progress pages and from what they say
// on the control socket. It judges nothing.
//
// Belongs to NodeWorkers and the loop's thread. Costs a few loads for each worker and Read().
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

  // The workers of `generation` are about to start. What is known of others is forgotten; until
  // then it stays, also of workers that are dead. `will_tell`: all of them will tell their steps,
  // as if each had said TELLS=1.
  void BeginGeneration(Generation generation, bool will_tell = false);

  Generation generation() const { return generation_; }

  // What the worker has said, by the process `speaker`: the worker itself, or one that it has
  // started.
  void OnMessage(LocalRank local_rank, const ControlMessage& message, TimePoint now,
                 const ProcessId& speaker = {});

  // The process that does the rank's work: the one that told its last step or phase, else the first
  // that has told anything. nullopt: none has, or it has ended.
  std::optional<ProcessId> SpeakerOf(LocalRank local_rank) const;

  // The descriptor of the worker's page, which stays ours; -1 where there is none to be had, which
  // is said once. Makes the page the first time.
  int PageOf(LocalRank local_rank);

  // Of each worker, by local rank.
  std::vector<WorkerProgress> Read(TimePoint now);

 private:
  struct Worker {
    WorkerProgress told;  // by messages; its moved_at is of both
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
