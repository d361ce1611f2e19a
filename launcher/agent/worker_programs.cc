#include "launcher/agent/worker_programs.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "launcher/config/command_line_program.h"
#include "launcher/log.h"
#include "launcher/os/file_util.h"
#include "launcher/python/fork_server_source.h"
#include "launcher/python/python_path.h"

namespace ddprun {
namespace {

// The fork server must have one thread only. Without OPENBLAS_NUM_THREADS=1, OpenBLAS would start
// threads when it is loaded; fork_server.py restores the workers' setting. An initialized CUDA does
// not survive fork(). So PYTORCH_NVML_BASED_CUDA_CHECK=1 makes torch count GPUs without
// initializing CUDA.
constexpr std::array<std::pair<absl::string_view, absl::string_view>, 2> kForkServerVariables = {
    {{"OPENBLAS_NUM_THREADS", "1"}, {"PYTORCH_NVML_BASED_CUDA_CHECK", "1"}}};

void SetForkServerVariables(std::vector<std::string>* env) {
  for (const auto& [name, value] : kForkServerVariables) {
    std::erase_if(*env, [name = name](const std::string& entry) {
      return absl::StartsWith(entry, absl::StrCat(name, "="));
    });
    env->push_back(absl::StrCat(name, "=", value));
  }
}

}  // namespace

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
  request.cpus = CpusOf(local_rank);
  return request;
}

bool WorkerPrograms::WillTellSteps() const {
  return options_.config.program.auto_step && !run_.python_path().empty();
}

CpuList WorkerPrograms::CpusOf(LocalRank local_rank) const {
  if (options_.worker_cpus.empty()) return {};
  return options_.worker_cpus.at(static_cast<std::size_t>(local_rank.value));
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

SpawnRequest WorkerPrograms::StandbyRequest(const std::vector<std::string>& command,
                                            LocalRank local_rank) const {
  SpawnRequest request;
  request.argv = WorkerArguments(command, local_rank);
  request.env = StandbyEnvironment(Place(local_rank), options_.environ, options_.config.env);
  PutOnPythonPath(run_.python_path(), &request.env);
  request.cpus = CpusOf(local_rank);
  return request;
}

Standbys::Options WorkerPrograms::StandbyOptions() const {
  Standbys::Options standbys;
  standbys.pool.wanted = options_.config.restart.warm;
  standbys.pool.workers = options_.config.nproc_per_node;
  standbys.python_path = run_.python_path();
  standbys.request = [this](LocalRank local_rank) {
    return StandbyRequest(options_.config.command, local_rank);
  };
  if (!options_.config.restart.preload.empty()) Preload(&standbys);
  return standbys;
}

void WorkerPrograms::Preload(Standbys::Options* standbys) const {
  const std::string preloader = run_.sockets() + "/fork_server.py";
  if (const auto written = WriteFileAtomic(preloader, kPythonForkServer); !written.ok()) {
    LogWarning(absl::StrCat("nothing is imported ahead of time: ", written.message()));
    standbys->pool.wanted = 0;
    return;
  }
  std::vector<std::string> command = options_.config.command;
  // The configuration has checked that there is a Python program.
  const auto at = command.begin() + static_cast<std::ptrdiff_t>(*FindPythonProgram(command));
  const std::vector<std::string> program(at, command.end());
  command.insert(at, {preloader, absl::StrJoin(options_.config.restart.preload, ",")});
  ForkServerProcess::Options& server = standbys->fork_server.emplace();
  server.request = StandbyRequest(command, LocalRank{0});
  server.request.cpus.clear();  // it forks for every worker
  SetForkServerVariables(&server.request.env);
  server.order = [this, program](LocalRank rank) {
    std::vector<std::string> order = WorkerArguments(program, rank);
    order.insert(order.begin(), absl::StrJoin(CpusOf(rank), ","));
    return order;
  };
  server.log_folder = run_.ForkServerFolder();
  standbys->pool.forks = true;
}

}  // namespace ddprun
