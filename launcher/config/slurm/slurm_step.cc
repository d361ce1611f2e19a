#include "launcher/config/slurm/slurm_step.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

class StepReader {
 public:
  explicit StepReader(const Host& host) : host_(host) {}

  absl::StatusOr<std::optional<SlurmStep>> Read() {
    const std::string nodes = Text("SLURM_STEP_NUM_NODES");
    SlurmStep step;
    step.job_id = Text("SLURM_JOB_ID");
    if (step.job_id.empty() || nodes.empty()) return std::nullopt;
    Number("SLURM_JOB_ID", 0);
    step.node_name = Text("SLURMD_NODENAME");
    step.nodes = Number("SLURM_STEP_NUM_NODES", 1);
    step.node_id = Number("SLURM_NODEID", 0);
    step.first_host = FirstHost(Text("SLURM_STEP_NODELIST"));
    if (step.first_host.empty()) Blame("SLURM_STEP_NODELIST", "names of hosts");
    // "1(x3),2": three nodes with one task and one with two.
    for (const absl::string_view part :
         absl::StrSplit(Text("SLURM_STEP_TASKS_PER_NODE"), ',', absl::SkipEmpty())) {
      const auto tasks = ParseWholeNumber(part.substr(0, part.find('(')));
      if (!tasks) Blame("SLURM_STEP_TASKS_PER_NODE", "such as 1(x4)");
      if (tasks && *tasks > 1) step.one_task_each = false;
    }
    if (!Text("SLURM_GPUS_ON_NODE").empty()) step.gpus_on_node = Number("SLURM_GPUS_ON_NODE", 0);
    if (!problem_.ok()) return problem_;
    return step;
  }

 private:
  std::string Text(const std::string& name) const { return host_.Environment(name).value_or(""); }

  int Number(const std::string& name, int least) {
    const auto number = ParseWholeNumber(Text(name));
    if (number && *number >= least && *number <= std::numeric_limits<int>::max()) {
      return static_cast<int>(*number);
    }
    Blame(name, absl::StrCat("a whole number from ", least, " on"));
    return least;
  }

  void Blame(const std::string& name, absl::string_view expected) {
    if (!problem_.ok()) return;
    problem_ = absl::InvalidArgumentError(absl::StrCat(
        name, ": expected ", expected, ", as Slurm sets it for each task of a step (found ",
        Quoted(Text(name)), ")"));
  }

  const Host& host_;
  absl::Status problem_;
};

}  // namespace

absl::StatusOr<std::optional<SlurmStep>> FindSlurmStep(const Host& host) {
  return StepReader(host).Read();
}

std::string FirstHost(absl::string_view hosts) {
  std::string first;
  bool in_brackets = false;
  bool taken = false;  // the first number in these brackets was taken
  for (const char c : hosts) {
    if (c == '[') {
      in_brackets = true;
      taken = false;
    } else if (c == ']') {
      in_brackets = false;
    } else if (in_brackets) {
      taken = taken || c == ',' || c == '-';
      if (!taken) first += c;
    } else if (c == ',') {
      break;
    } else {
      first += c;
    }
  }
  return first;
}

int SlurmPort(absl::string_view job_id) {
  constexpr std::int64_t kLowest = 10'000;
  constexpr std::int64_t kJobs = 5'000;
  const std::int64_t id = ParseWholeNumber(job_id).value_or(0);
  return static_cast<int>(kLowest + id % kJobs * (1 + kSlurmSparePorts));
}

namespace {

// Every node of a step has MUNGE, because Slurm needs it.
void UseMunge(bool insecure, JobDraft* draft) {
  CredentialsConfig& credentials = draft->config.rendezvous.credentials;
  const bool shown_otherwise = !credentials.token_file.empty() || !credentials.tls_ca.empty() ||
                               !credentials.tls_cert.empty() ||
                               draft->origins.count("rendezvous.munge") != 0;
  if (!shown_otherwise && !insecure) credentials.munge = true;
}

// For batch scripts written for torchrun, which name an endpoint on one of the step's nodes.
void CompleteNamedEndpoint(const SlurmStep& step, bool insecure, JobDraft* draft) {
  JobConfig& config = draft->config;
  if (config.rendezvous.autostart != "true" || step.nodes == 1 || config.nodes.max == 1) return;
  config.place.ends_with_process = true;
  config.place.node_name = step.node_name;
  UseMunge(insecure, draft);
}

// The default of nproc_per_node. `env`: the job's variables for its workers.
std::string DefaultProcesses(const SlurmStep& step, const std::map<std::string, std::string>& env,
                             const Host& host) {
  const VisibleGpus visible = GpusOfWorkers(env, host);
  // "gpu" is refused for several MIG instances: CUDA would show each worker the same one.
  if (visible.are_instances) return "gpu";
  const bool listed = env.count("CUDA_VISIBLE_DEVICES") != 0;
  const int gpus = step.gpus_on_node && !listed ? *step.gpus_on_node : visible.count;
  return absl::StrCat(std::max(gpus, 1));
}

}  // namespace

absl::Status ApplySlurm(const SlurmStep& step, const Host& host, bool insecure, JobDraft* draft) {
  const auto given = [&](const char* key) { return draft->origins.count(key) != 0; };
  JobConfig& config = draft->config;
  RendezvousConfig& rendezvous = config.rendezvous;
  if (!given("nproc_per_node")) draft->nproc_per_node = DefaultProcesses(step, config.env, host);
  if (given("rendezvous.endpoint") || !config.spec.master_addr.empty() ||
      rendezvous.node_rank >= 0) {
    CompleteNamedEndpoint(step, insecure, draft);
    return absl::OkStatus();
  }
  if (!step.one_task_each) {
    return absl::InvalidArgumentError(
        "this Slurm step has more than one task on a node, and each task runs a ddprun; start one "
        "ddprun on each node, which starts the workers itself: srun --ntasks-per-node=1 ddprun "
        "--nproc-per-node N COMMAND");
  }
  if (step.node_id >= step.nodes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SLURM_NODEID is ", step.node_id, " in a step of ", step.nodes,
        step.nodes == 1 ? " node" : " nodes", ", as in a heterogeneous job: ask for all nodes in ",
        "one part, or give --rdzv-endpoint, --rdzv-id and --nnodes"));
  }
  // Appends the job id, because the next submission has the same name again, with restart count 0.
  rendezvous.id =
      given("rendezvous.id") ? absl::StrCat(rendezvous.id, ".", step.job_id) : step.job_id;
  if (!given("save_timeout")) config.spec.save_timeout = kSlurmSaveTimeout;
  if (!given("stop_grace")) config.stop_grace = kSlurmStopGrace;
  config.place = {/*ends_with_process=*/true, /*has_later_lives=*/true, /*slurm_requeues=*/true,
                  step.node_name, step.nodes};
  if (!given("nodes")) {
    const int train = std::max(step.nodes - config.slurm.spare_nodes, 1);
    config.nodes = {train, train};
  }
  if (config.nodes.min > step.nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat(draft->origins["nodes"].place, ": expected at most the ", step.nodes,
                     step.nodes == 1 ? " node" : " nodes", " of this Slurm step (found ",
                     FormatNodes(config.nodes), "); srun --nodes=", config.nodes.min,
                     " where the allocation has them"));
  }
  if (step.nodes == 1) return absl::OkStatus();
  if (config.nodes.max == 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "one node is to train, but this Slurm step has ", step.nodes,
        ", and each would train on its own: srun --nodes=1, without slurm.spare_nodes"));
  }
  rendezvous.endpoint = FormatEndpoint({step.first_host, SlurmPort(step.job_id)});
  rendezvous.spare_ports = kSlurmSparePorts;
  rendezvous.autostart = "true";
  // With spare nodes any node may get any rank: ranks follow the host names, as in Slurm.
  const bool all_take_part = config.nodes.min == step.nodes && config.nodes.max == step.nodes;
  if (all_take_part) rendezvous.node_rank = step.node_id;
  UseMunge(insecure, draft);
  return absl::OkStatus();
}

}  // namespace ddprun
