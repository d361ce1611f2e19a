// WorkerPrograms: the arguments, the environment and Python's path of each worker and standby of
// this node.
//
// Belongs to the agent and its loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_WORKER_PROGRAMS_H_
#define DDPRUN_LAUNCHER_AGENT_WORKER_PROGRAMS_H_

#include <string>
#include <vector>

#include "launcher/agent/agent_options.h"
#include "launcher/agent/run/run_directory.h"
#include "launcher/agent/standbys/standbys.h"
#include "launcher/agent/worker_environment.h"
#include "launcher/config/machine/cpus.h"
#include "launcher/core/supervisor/actions.h"
#include "launcher/os/process/process_runner.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class WorkerPrograms {
 public:
  // Both pointers must outlive this object. Makes the module ddprun available to Python workers, or
  // logs why it cannot.
  WorkerPrograms(const AgentOptions* options, RunDirectory* run, std::string control_socket);

  SpawnRequest RequestFor(const SupervisorActions::SpawnWorkers& spawn, LocalRank local_rank) const;
  Standbys::Options StandbyOptions() const;
  // True with --auto-step, if Python workers have the module ddprun: the workers' steps will be
  // reported, so hangs are detected from the start.
  bool WillTellSteps() const;

 private:
  void AddPythonModule();
  SpawnRequest StandbyRequest(const std::vector<std::string>& command, LocalRank local_rank) const;
  // Sets the options of the fork server for --preload.
  void Preload(Standbys::Options* standbys) const;
  CpuList CpusOf(LocalRank local_rank) const;  // empty: not bound
  // The part of this worker's place that is the same in every generation.
  WorkerPlace Place(LocalRank local_rank) const;

  const AgentOptions& options_;
  RunDirectory& run_;
  const std::string control_socket_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_PROGRAMS_H_
