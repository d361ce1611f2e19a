// WorkerPrograms: what this node executes for each worker and each standby: arguments, environment,
// and what Python finds on its path.
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
  // Both pointers must outlive this object. Gives Python workers the module ddprun, or says in the
  // log why not.
  WorkerPrograms(const AgentOptions* options, RunDirectory* run, std::string control_socket);

  SpawnRequest RequestFor(const SupervisorActions::SpawnWorkers& spawn, LocalRank local_rank) const;
  Standbys::Options StandbyOptions() const;
  // --auto-step tells the workers' steps: they are judged for hangs from their start on.
  bool WillTellSteps() const;

 private:
  void AddPythonModule();
  SpawnRequest StandbyRequest(const std::vector<std::string>& command, LocalRank local_rank) const;
  // With --preload: the options of the fork server.
  void Preload(Standbys::Options* standbys) const;
  CpuList CpusOf(LocalRank local_rank) const;  // empty: it is not bound
  // Where this node's worker with this local rank is: what is the same in every generation.
  WorkerPlace Place(LocalRank local_rank) const;

  const AgentOptions& options_;
  RunDirectory& run_;
  const std::string control_socket_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_PROGRAMS_H_
