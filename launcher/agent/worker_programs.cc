#include "launcher/agent/worker_programs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/config/command_line_program.h"
#include "launcher/log.h"
#include "launcher/os/file_util.h"
#include "launcher/python/python_path.h"
#include "launcher/python/standby_source.h"

namespace ddprun {

WorkerPrograms::WorkerPrograms(const AgentOptions* options, RunDirectory* run,
                               std::string control_socket)
    : options_(*options), run_(*run), control_socket_(std::move(control_socket)) {
  AddPythonModule();
}

SpawnRequest WorkerPrograms::RequestFor(const SupervisorActions::SpawnWorkers& spawn,
                                        LocalRank local_rank) const {
  WorkerPlace place = Place(local_rank);
  place.generation = spawn.generation;
  place.assignment = spawn.assignment;
  place.error_file = run_.ErrorFile(spawn.generation, local_rank);
  SpawnRequest request;
  request.argv = WorkerArguments(options_.config.command, local_rank);
  request.env = WorkerEnvironment(place, options_.environ, options_.config.env);
  PutOnPythonPath(run_.python_path(), &request.env);
  return request;
}

bool WorkerPrograms::WillTellSteps() const {
  return options_.config.program.auto_step && !run_.python_path().empty();
}

WorkerPlace WorkerPrograms::Place(LocalRank local_rank) const {
  WorkerPlace place;
  place.config = &options_.config;
  place.local_rank = local_rank;
  place.run_dir = run_.path();
  place.snapshot_dir = run_.snapshots();
  place.control_socket = control_socket_;
  return place;
}

void WorkerPrograms::AddPythonModule() {
  if (!RunsSitecustomize(options_.config.command)) return;
  const bool auto_step = options_.config.program.auto_step;
  if (const auto added =
          run_.AddPythonFolder({auto_step, options_.config.program.store == kAgentStore});
      !added.ok()) {
    LogWarning(absl::StrCat("Python workers have no module ddprun",
                            auto_step ? ", and --auto-step has no effect: " : ": ",
                            added.message()));
  }
}

Standbys::Options WorkerPrograms::StandbyOptions() const {
  Standbys::Options standbys;
  standbys.pool.wanted = options_.config.restart.warm;
  standbys.pool.workers = options_.config.nproc_per_node;
  standbys.pool.waits_in = "ddp::init()";
  standbys.python_path = run_.python_path();
  std::vector<std::string> command = options_.config.command;
  if (!options_.config.restart.preload.empty()) {
    const std::string program = run_.sockets() + "/standby.py";
    if (const auto written = WriteFileAtomic(program, kPythonStandby); !written.ok()) {
      LogWarning(absl::StrCat("there will be no warm standbys: ", written.message()));
      standbys.pool.wanted = 0;
    }
    // The configuration has checked that there is a program.
    const auto at = command.begin() + static_cast<std::ptrdiff_t>(*FindPythonProgram(command));
    command.insert(at, {program, absl::StrJoin(options_.config.restart.preload, ",")});
    standbys.pool.always_able = true;
    standbys.pool.waits_in = "the end of its imports";
  }
  standbys.request = [this, command](LocalRank local_rank) {
    SpawnRequest request;
    request.argv = WorkerArguments(command, local_rank);
    request.env = StandbyEnvironment(Place(local_rank), options_.environ, options_.config.env);
    PutOnPythonPath(run_.python_path(), &request.env);
    return request;
  };
  return standbys;
}

}  // namespace ddprun
