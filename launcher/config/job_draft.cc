#include "launcher/config/job_draft.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/config/command_line_program.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

std::string Absolute(const std::string& path, const Host& host) {
  if (path.empty()) return "";
  return (std::filesystem::path(host.CurrentDirectory()) / path).lexically_normal().string();
}

}  // namespace

CredentialsConfig AbsolutePaths(CredentialsConfig credentials, const Host& host) {
  for (std::string* const path :
       {&credentials.token_file, &credentials.tls_ca, &credentials.tls_cert, &credentials.tls_key,
        &credentials.munge_socket}) {
    *path = Absolute(*path, host);
  }
  return credentials;
}

namespace {

class Finisher {
 public:
  Finisher(const JobDraft& draft, const Origin& where, const Host& host)
      : draft_(draft), where_(where), host_(host), config_(draft.config) {}

  std::variant<JobConfig, std::vector<JobProblem>> Finish() {
    ResolveProcesses();
    CheckNodes();
    CheckGpus();
    TakeEtcd();
    TakeSeveral();
    CheckLease();
    ResolveRequeueNumber();
    ResolveCommand();
    ResolveStandbys();
    CheckAutoStep();
    config_.log_dir = Absolute(config_.log_dir, host_);
    config_.checkpoint_dir = Absolute(config_.checkpoint_dir, host_);
    config_.told.report = Absolute(config_.told.report, host_);
    MetricsConfig& metrics = config_.told.metrics;
    for (std::string* const path : {&metrics.cert, &metrics.key, &metrics.token_file}) {
      *path = Absolute(*path, host_);
    }
    config_.rendezvous.credentials = AbsolutePaths(config_.rendezvous.credentials, host_);
    if (!problems_.empty()) return std::move(problems_);
    return std::move(config_);
  }

 private:
  const Origin& OriginOf(const std::string& key) const {
    const auto it = draft_.origins.find(key);
    return it == draft_.origins.end() ? where_ : it->second;
  }

  void AddProblem(const Origin& origin, const std::string& what) {
    problems_.push_back({origin.source, absl::StrCat(origin.place, ": ", what)});
  }

  void ResolveProcesses() {
    const std::string& text = draft_.nproc_per_node;
    if (const auto number = ParseWholeNumber(text); number.has_value()) {
      config_.nproc_per_node = static_cast<int>(*number);  // in range: checked when set
      return;
    }
    const VisibleGpus visible = text == "cpu" ? VisibleGpus() : GpusOfWorkers(config_.env, host_);
    const int gpus = visible.count;
    const auto devices = DevicesOfWorkers(config_.env, host_);
    const bool listed = devices.has_value();
    const bool one_each = config_.program.virtual_local_rank && listed;
    if (visible.are_instances && gpus > 1 && !one_each) {
      AddProblem(OriginOf("nproc_per_node"),
                 absl::StrCat(text, ": this node has ", gpus,
                              " instances of divided GPUs (MIG), and CUDA shows a process only the "
                              "first one; give --virtual-local-rank, and list them in "
                              "CUDA_VISIBLE_DEVICES (nvidia-smi -L names them)"));
      return;
    }
    if (text == "gpu" && gpus == 0) {
      AddProblem(OriginOf("nproc_per_node"),
                 absl::StrCat("gpu: this node has no GPU (",
                              listed && (devices->empty() || !host_.Gpus().empty())
                                  ? "CUDA_VISIBLE_DEVICES hides them all"
                                  : "no /dev/nvidia0",
                              "); give a number, cpu or auto"));
      return;
    }
    config_.nproc_per_node = gpus > 0 ? gpus : host_.CpuCount();
  }

  void CheckNodes() {
    if (config_.nodes.max == 1 || !config_.standalone()) return;
    const auto endpoint = draft_.origins.find("rendezvous.endpoint");
    AddProblem(
        OriginOf("nodes"),
        absl::StrCat("more than one node needs a rendezvous (found ", FormatNodes(config_.nodes),
                     " and ",
                     endpoint == draft_.origins.end() ? "no endpoint" : endpoint->second.place,
                     "); give --rdzv-endpoint HOST:PORT, or rendezvous.endpoint in the job "
                     "file"));
  }

  // With virtual local ranks each worker gets one entry of CUDA_VISIBLE_DEVICES, if that is set.
  void CheckGpus() {
    if (!config_.program.virtual_local_rank) return;
    const auto visible = DevicesOfWorkers(config_.env, host_);
    if (!visible.has_value()) return;
    const auto entries = static_cast<int>(std::count(visible->begin(), visible->end(), ',')) + 1;
    if (entries >= config_.nproc_per_node) return;
    AddProblem(OriginOf("virtual_local_rank"),
               absl::StrCat("each worker needs a GPU of its own (found ", config_.nproc_per_node,
                            " workers and CUDA_VISIBLE_DEVICES=", *visible, ")"));
  }

  void TakeEtcd() {
    EtcdAccess& etcd = config_.rendezvous.etcd;
    const Origin& backend = OriginOf("rendezvous.backend");
    if (!config_.rendezvous.in_etcd()) {
      if (!(etcd == EtcdAccess())) RefuseEtcdKeys();
      return;
    }
    if (!IsEtcdPrefix(etcd.prefix)) {
      AddProblem(OriginOf("rendezvous.etcd_prefix"),
                 absl::StrCat(ExpectedEtcdPrefix(), " (found ", Quoted(etcd.prefix), ")"));
    }
    for (const std::string& problem : ProblemsOf(etcd)) AddProblem(backend, problem);
    for (std::string* const path :
         {&etcd.ca_file, &etcd.certificate_file, &etcd.key_file, &etcd.password_file}) {
      *path = Absolute(*path, host_);
    }
    etcd.endpoints = SplitEndpoints(config_.rendezvous.endpoint);
  }

  // Variables may be there for other commands.
  void RefuseEtcdKeys() {
    for (const auto& [key, origin] : draft_.origins) {
      if (!absl::StartsWith(key, "rendezvous.etcd_")) continue;
      if (origin.source == Source::kEnvironment) continue;
      AddProblem(origin, "goes with --rdzv-backend etcd only (rendezvous.backend: etcd)");
    }
  }

  // With several rendezvous, heartbeats are more frequent.
  void TakeSeveral() {
    RendezvousConfig& rendezvous = config_.rendezvous;
    if (!rendezvous.several()) return;
    if (!rendezvous.in_etcd()) StartNone();
    if (!Given("rendezvous.heartbeat")) config_.spec.heartbeat = kHeartbeatOfSeveral;
    if (config_.spec.lease >= kMinLeaseOfSeveral) return;
    AddProblem(OriginOf("rendezvous.lease"),
               absl::StrCat("with ", rendezvous.in_etcd() ? "etcd" : "several endpoints",
                            " the lease must be at least ", FormatDuration(kMinLeaseOfSeveral),
                            ", or a change of the leader would end the workers (found ",
                            FormatDuration(config_.spec.lease), "); leave it out"));
  }

  bool Given(const char* key) const { return draft_.origins.count(key) != 0; }

  // With several endpoints no agent starts a rendezvous.
  void StartNone() {
    RendezvousConfig& rendezvous = config_.rendezvous;
    if (Given("rendezvous.autostart") && rendezvous.autostart == "true") {
      AddProblem(OriginOf("rendezvous.autostart"),
                 absl::StrCat("an agent starts a rendezvous at a single endpoint only (found true, "
                              "and the endpoints ",
                              rendezvous.endpoint,
                              "); start each with `ddprun rendezvous --etcd`, and say false here"));
    }
    rendezvous.autostart = "false";
  }

  void CheckLease() {
    const JobSpec& spec = config_.spec;
    if (spec.lease >= kHeartbeatsPerLease * spec.heartbeat) return;
    const bool lease_given = draft_.origins.count("rendezvous.lease") != 0;
    AddProblem(
        OriginOf(lease_given ? "rendezvous.lease" : "rendezvous.heartbeat"),
        absl::StrCat("the lease must be at least three heartbeats, or one that is late would end a "
                     "node (found a lease of ",
                     FormatDuration(spec.lease), " and a heartbeat of ",
                     FormatDuration(spec.heartbeat), ")"));
  }

  void ResolveRequeueNumber() {
    // JobSet sets the second as a label of the pod; the pod's manifest turns it into a variable.
    for (const char* const name : {"SLURM_RESTART_COUNT", "JOBSET_RESTART_ATTEMPT"}) {
      const std::string text = host_.Environment(name).value_or("");
      if (text.empty()) continue;
      const auto count = ParseWholeNumber(text);
      if (count.has_value() && *count <= std::numeric_limits<std::uint32_t>::max()) {
        config_.rendezvous.requeue_number = static_cast<std::uint32_t>(*count);
      } else {
        AddProblem({Source::kEnvironment, name},
                   absl::StrCat("expected a whole number (found ", Quoted(text), ")"));
      }
      return;
    }
  }

  void ResolveCommand() {
    if (draft_.module && draft_.run_path) {
      AddProblem(where_, "-m names a module and --run-path a file; leave one of them out");
      return;
    }
    if (draft_.module && draft_.no_python) {
      AddProblem(OriginOf("no_python"), "a module (-m) runs under Python; leave one of them out");
      return;
    }
    if (draft_.config.command.empty()) {
      AddProblem(where_, "expected the program that a worker runs (found none)");
      return;
    }
    const ProgramKind kind = draft_.run_path    ? ProgramKind::kRunPath
                             : draft_.module    ? ProgramKind::kModule
                             : draft_.no_python ? ProgramKind::kAsIs
                                                : ProgramKind::kByName;
    const std::string python = host_.Environment("PYTHON_EXEC").value_or("");
    config_.command =
        WorkerCommand(draft_.config.command, kind, python.empty() ? "python3" : python);
  }

  void ResolveStandbys() {
    RestartConfig& restart = config_.restart;
    const auto number = ParseWholeNumber(draft_.warm);
    restart.warm = number.has_value() ? static_cast<int>(*number) : config_.nproc_per_node;
    if (config_.command.empty()) return;  // reported elsewhere
    const bool python = IsPythonInterpreter(config_.command.front());
    if (restart.preload.empty()) {
      if (restart.warm == 0 || !python) return;
      AddProblem(OriginOf("restart.warm"),
                 "a Python program needs --preload (restart.preload) with the modules that a "
                 "waiting interpreter has imported, such as --preload torch");
    } else if (!python) {
      AddProblem(OriginOf("restart.preload"),
                 absl::StrCat("modules are for a Python program (found the command ",
                              Quoted(config_.command.front()), ")"));
    } else if (!FindPythonProgram(config_.command).has_value()) {
      AddProblem(OriginOf("restart.preload"),
                 "expected a command of the form python3 [-u] SCRIPT, -m MODULE or -c CODE");
    }
  }

  void CheckAutoStep() {
    if (!config_.program.auto_step || config_.command.empty()) return;
    if (RunsSitecustomize(config_.command)) return;
    AddProblem(OriginOf("python.auto_step"),
               absl::StrCat("expected a Python program, started without -E, -I and -S (found the "
                            "command ",
                            Quoted(absl::StrJoin(config_.command, " ")), ")"));
  }

  const JobDraft& draft_;
  const Origin& where_;
  const Host& host_;
  JobConfig config_;
  std::vector<JobProblem> problems_;
};

}  // namespace

std::variant<JobConfig, std::vector<JobProblem>> FinishJob(const JobDraft& draft,
                                                           const Origin& where, const Host& host) {
  return Finisher(draft, where, host).Finish();
}

}  // namespace ddprun
