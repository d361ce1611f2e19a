#include "launcher/config/flags/run_options.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/config/flags/rendezvous/rendezvous_conf.h"
#include "launcher/config/flags/suggestion.h"
#include "launcher/config/job_draft.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"
#include "launcher/config/kubernetes/kubernetes_pod.h"
#include "launcher/config/slurm/slurm_step.h"
#include "launcher/config/values.h"
#include "launcher/config/yaml_config.h"

namespace ddprun {
namespace {

class RunOptions {
 public:
  RunOptions(const FlagReading& reading, const Host& host) : reading_(reading), host_(host) {}

  Command Make() {
    const GivenFlag* const config = reading_.Find("config");
    if (config != nullptr) {
      const absl::Status status = LoadJobFileInto(config->value, &draft_);
      if (!status.ok()) return CommandLineError{kExitBadConfig, std::string(status.message())};
    }
    TakeBackend();
    for (const GivenFlag& flag : reading_.given) Apply(flag);
    CheckOptions();
    ResolveBackend();
    TakeLaunchPlace();
    if (draft_.config.standalone()) draft_.config.rendezvous.autostart = "auto";
    if (!reading_.rest.empty()) TakeCommand();
    if (!errors_.empty()) return CommandLineError{kExitUsage, absl::StrJoin(errors_, "\n")};
    const Origin where = config == nullptr
                             ? Origin{Source::kFlag, "COMMAND"}
                             : Origin{Source::kFile, absl::StrCat(config->value, ":1:1: command")};
    return Finish(where);
  }

 private:
  void AddError(const Origin& origin, absl::string_view what) {
    errors_.push_back(absl::StrCat(origin.place, ": ", what));
  }
  // Does nothing if `status` is OK.
  void AddError(const absl::Status& status) {
    if (!status.ok()) errors_.emplace_back(status.message());
  }

  void Apply(const GivenFlag& flag) {
    const FlagSpec& spec = *flag.spec;
    if (spec.effect == FlagEffect::kSetsKey) {
      absl::string_view text = spec.value.empty() ? spec.fixed : flag.value;
      std::string of_etcd;
      if (spec.name == "rdzv-endpoint" && draft_.config.rendezvous.in_etcd()) {
        text = of_etcd = WithEtcdPorts(text);
      } else if (spec.name == "rdzv-endpoint" && absl::EndsWith(text, ":0") &&
                 !absl::StrContains(text, ',')) {
        any_port_ = &flag;  // in torchrun: only this node, on any port
        text = "";
      } else if (spec.name == "master-addr" && absl::ConsumePrefix(&text, "[")) {
        absl::ConsumeSuffix(&text, "]");  // torchrun writes IPv6 addresses in brackets
      }
      SetKey(spec.key, text, flag.origin);
    } else if (spec.effect == FlagEffect::kMaySetKey) {
      SetKey(spec.key, flag.value, flag.origin);
    } else if (spec.effect == FlagEffect::kSetsSeconds) {
      SetKey(spec.key, WithUnit(flag.value), flag.origin);
    } else if (spec.name == "rdzv-conf") {
      ApplyRendezvousSettings(flag);
    }
  }

  void SetKey(absl::string_view path, absl::string_view text, const Origin& origin) {
    const auto [other, fresh] = draft_.origins.emplace(path, origin);
    if (!fresh && other->second.source == origin.source) {
      AddError(origin, absl::StrCat("conflicts with ", other->second.place,
                                    ", which sets the same; give one of them"));
      return;
    }
    other->second = origin;
    const absl::Status status = SetFromText(*FindJobKey(path), text, &draft_);
    if (!status.ok()) AddError(origin, status.message());
  }

  void ApplyRendezvousSettings(const GivenFlag& flag) {
    for (const absl::string_view entry : absl::StrSplit(flag.value, ',', absl::SkipWhitespace())) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(entry, absl::MaxSplits('=', 1));
      const absl::string_view name = absl::StripAsciiWhitespace(pair.first);
      const absl::string_view value = absl::StripAsciiWhitespace(pair.second);
      const RendezvousSetting* const setting = FindRendezvousSetting(name);
      const Origin origin{flag.origin.source, absl::StrCat(flag.origin.place, ": ", name)};
      if (setting == nullptr) {
        const std::vector<std::string> names = RendezvousSettingNames();
        AddError(origin, absl::StrCat("expected one of ", absl::StrJoin(names, ", "),
                                      " (found an unknown setting)", DidYouMean(name, names)));
      } else if (name == kProtocolSetting) {
        protocol_ = {origin, std::string(value)};
      } else {
        SetKey(setting->key, setting->value(value), origin);
      }
    }
  }

  // The value of `name` must be one of `choices`; `why` follows in the error.
  void CheckChoice(absl::string_view name, const std::vector<std::string>& choices,
                   absl::string_view why) {
    const GivenFlag* const flag = reading_.Find(name);
    if (flag == nullptr) return;
    for (const std::string& choice : choices) {
      if (flag->value == choice) return;
    }
    AddError(flag->origin, absl::StrCat("expected ", absl::StrJoin(choices, " or "), why,
                                        " (found ", Quoted(flag->value), ")"));
  }

  void Note(absl::string_view name, absl::string_view why) {
    if (const GivenFlag* const flag = reading_.Find(name); flag != nullptr) {
      notes_.push_back(absl::StrCat(flag->origin.place, " has no effect: ", why));
    }
  }

  void CheckOptions() {
    CheckBackend();
    CheckChoice("start-method", {"spawn", "fork", "forkserver"}, "");
    if (const GivenFlag* const interval = reading_.Find("monitor-interval"); interval != nullptr) {
      double seconds = 0;
      const bool number = absl::SimpleAtod(interval->value, &seconds);
      if (!number || !std::isfinite(seconds) || seconds < 0) {
        AddError(interval->origin, absl::StrCat("expected a number of seconds, 0 or more (found ",
                                                Quoted(interval->value), ")"));
      }
    }
    const GivenFlag* const json = reading_.Find("json");
    if (json != nullptr && json->origin.source == Source::kFlag && !reading_.IsOn("dry-run")) {
      AddError(json->origin, "expected together with --dry-run");
    }
    if (const std::string conflict = VerbosityConflict(reading_); !conflict.empty()) {
      errors_.push_back(conflict);
    }
    Note("monitor-interval", "the end of a worker is noticed at once, without polling");
    Note("start-method", "every worker is a program of its own");
    CheckSignals();
    ApplyModule();
  }

  // Call it before the endpoint is read: the default port of an etcd is another one.
  void TakeBackend() {
    const GivenFlag* const backend = reading_.Find("rdzv-backend");
    if (backend == nullptr) return;
    draft_.config.rendezvous.backend = backend->value == kEtcdBackend ? kEtcdBackend : "ddprun";
    draft_.origins["rendezvous.backend"] = backend->origin;
  }

  void CheckBackend() {
    const GivenFlag* const backend = reading_.Find("rdzv-backend");
    if (backend != nullptr && backend->value == "etcd-v2") {
      AddError(backend->origin,
               "etcd's API v2 is not used (found \"etcd-v2\"); say etcd: it takes the same "
               "--rdzv-endpoint, of an etcd 3.4 or newer");
      return;
    }
    CheckChoice("rdzv-backend", {"c10d", "static", "ddprun", kEtcdBackend},
                "; each means ddprun's own rendezvous");
  }

  void CheckEtcd() {
    const RendezvousConfig& rendezvous = draft_.config.rendezvous;
    if (protocol_) {
      const std::string problem = rendezvous.in_etcd()
                                      ? ProblemOfProtocol(protocol_->second, rendezvous.etcd)
                                      : "goes with --rdzv-backend etcd only";
      if (!problem.empty()) AddError(protocol_->first, problem);
    }
    if (rendezvous.in_etcd() && rendezvous.endpoint.empty()) {
      AddError(draft_.origins["rendezvous.backend"],
               "etcd needs --rdzv-endpoint HOST:2379, the members of an etcd separated by commas "
               "(found none)");
    }
  }

  // The listed signals are always handled. Other names are refused instead of being silently
  // ignored.
  void CheckSignals() {
    const GivenFlag* const flag = reading_.Find("signals-to-handle");
    if (flag == nullptr) return;
    static constexpr absl::string_view kHandled[] = {"SIGTERM", "SIGINT",  "SIGHUP",
                                                     "SIGQUIT", "SIGUSR1", "SIGUSR2"};
    for (absl::string_view name : absl::StrSplit(flag->value, ',')) {
      name = absl::StripAsciiWhitespace(name);
      if (std::find(std::begin(kHandled), std::end(kHandled), name) != std::end(kHandled)) continue;
      AddError(flag->origin, absl::StrCat("expected names among ", absl::StrJoin(kHandled, ","),
                                          " (found ", Quoted(name), ")"));
    }
  }

  // Decides who starts the rendezvous and, in static mode, which rank this node asks for. As under
  // torchrun, a node rank or a master without a named backend means static mode.
  void ResolveBackend() {
    RendezvousConfig& rendezvous = draft_.config.rendezvous;
    JobSpec& spec = draft_.config.spec;
    const NodesConfig& nodes = draft_.config.nodes;
    const GivenFlag* const backend = reading_.Find("rdzv-backend");
    const GivenFlag* const node_rank = reading_.Find("node-rank");
    if (any_port_ != nullptr && nodes.max > 1) {
      AddError(any_port_->origin, "port 0 is for one node; give the nodes a port to meet at");
    }
    // With etcd, the job file may say that agents start none.
    if (backend != nullptr && !(rendezvous.in_etcd() && rendezvous.autostart == "false")) {
      rendezvous.autostart = backend->value == "ddprun" ? "false" : "true";
    }
    CheckEtcd();
    if (backend != nullptr && (backend->value == "c10d" || rendezvous.in_etcd())) {
      Note("node-rank", absl::StrCat("with ", backend->value,
                                     " the rendezvous gives the ranks; --rdzv-backend=static "
                                     "asks"));
      Note("master-addr", "it is for --rdzv-backend=static");
      Note("master-port", "it is for --rdzv-backend=static");
      spec.master_addr.clear();
      spec.master_port = 0;
      return;
    }
    const bool is_static = backend != nullptr && backend->value == "static";
    if (is_static && rendezvous.several()) {
      AddError(backend->origin,
               "static has one endpoint, where the workers meet; c10d and ddprun take several");
      return;
    }
    if (is_static && !rendezvous.endpoint.empty()) TakeMasterOfEndpoint();
    const bool no_endpoint = rendezvous.endpoint.empty();
    // A port alone is compatible with ranks given by a rendezvous; an address is not.
    const bool has_master = !spec.master_addr.empty() || (spec.master_port != 0 && no_endpoint);
    if (!is_static && !has_master && node_rank == nullptr) return;
    if (backend == nullptr) rendezvous.autostart = "true";
    if (nodes.min != nodes.max) {
      const Origin& where = node_rank != nullptr ? node_rank->origin : draft_.origins["nodes"];
      AddError(where, "static mode has a fixed number of nodes; --rdzv-backend=c10d takes MIN:MAX");
      return;
    }
    TakeNodeRank(node_rank);
    if (has_master || is_static || (no_endpoint && nodes.max > 1))
      TakeMaster(no_endpoint, is_static);
  }

  void TakeNodeRank(const GivenFlag* flag) {
    const int most = draft_.config.nodes.max - 1;
    draft_.config.rendezvous.node_rank = 0;
    if (flag == nullptr) return;
    const auto rank = ParseWholeNumber(flag->value);
    if (!rank.has_value() || *rank > most) {
      AddError(flag->origin, absl::StrCat("expected a whole number from 0 to ", most,
                                          ", below --nnodes (found ", Quoted(flag->value), ")"));
      return;
    }
    draft_.config.rendezvous.node_rank = static_cast<int>(*rank);
  }

  // torchrun's static backend: the endpoint is where the workers meet.
  void TakeMasterOfEndpoint() {
    RendezvousConfig& rendezvous = draft_.config.rendezvous;
    Note("master-addr", "with --rdzv-backend=static the endpoint is the master");
    Note("master-port", "with --rdzv-backend=static the endpoint is the master");
    const Endpoint master = *ParseEndpoint(rendezvous.endpoint, 1, std::nullopt);
    draft_.config.spec.master_addr = master.host;
    draft_.config.spec.master_port = master.port;
    rendezvous.endpoint.clear();
    auto origin = draft_.origins.extract("rendezvous.endpoint");
    draft_.origins["rendezvous.master_port"] = std::move(origin.mapped());
  }

  // Sets torchrun's defaults. If the job has no endpoint, sets it to the port after MASTER_PORT,
  // which the workers need for themselves.
  void TakeMaster(bool no_endpoint, bool is_static) {
    JobSpec& spec = draft_.config.spec;
    if (spec.master_addr.empty() && no_endpoint) spec.master_addr = "127.0.0.1";
    if (spec.master_port == 0) spec.master_port = kDefaultMasterPort;
    if (!no_endpoint || draft_.config.nodes.max == 1) return;
    if (draft_.origins.count("rendezvous.endpoint") != 0) return;  // set by --standalone
    if (spec.master_port == kMaxPort) {
      AddError(draft_.origins["rendezvous.master_port"],
               absl::StrCat(kMaxPort, " has no next port for the rendezvous; give ",
                            is_static ? "a lower one" : "--rdzv-endpoint"));
      return;
    }
    draft_.config.rendezvous.endpoint = FormatEndpoint({spec.master_addr, spec.master_port + 1});
  }

  // In a pod, a Slurm step takes precedence.
  void TakeLaunchPlace() {
    const bool insecure = reading_.IsOn("insecure");
    const auto step = FindSlurmStep(host_);
    if (!step.ok()) return AddError(step.status());
    if (step->has_value()) return AddError(ApplySlurm(**step, host_, insecure, &draft_));
    FitIntoPodsGrace(host_, &draft_);
    const auto pod = FindKubernetesPod(host_);
    if (!pod.ok()) return AddError(pod.status());
    if (pod->has_value()) return AddError(ApplyKubernetes(**pod, host_, insecure, &draft_));
  }

  void ApplyModule() {
    draft_.run_path = reading_.IsOn("run-path");
    const GivenFlag* const module = reading_.Find("module");
    if (module == nullptr) return;
    draft_.module = true;
    const auto as_is = draft_.origins.find("no_python");
    if (as_is != draft_.origins.end() && as_is->second.source < module->origin.source) {
      draft_.no_python = false;
    }
  }

  void TakeCommand() {
    const Origin origin{Source::kFlag, "COMMAND"};
    if (reading_.rest.front().empty()) {
      AddError(origin, "expected the program that a worker runs (found an empty string)");
    }
    draft_.config.command = reading_.rest;
    draft_.origins["command"] = origin;
  }

  Command Finish(const Origin& where) {
    auto result = FinishJob(draft_, where, host_);
    if (auto* problems = std::get_if<std::vector<JobProblem>>(&result)) {
      CommandLineError error{kExitBadConfig, ""};
      for (const JobProblem& problem : *problems) {
        if (problem.source != Source::kFile) error.exit_code = kExitUsage;
        absl::StrAppend(&error.message, error.message.empty() ? "" : "\n", problem.message);
      }
      return error;
    }
    RunCommand run;
    run.config = std::get<JobConfig>(std::move(result));
    run.config.logs.verbosity = Verbosity(reading_);
    run.config.insecure = reading_.IsOn("insecure");
    run.dry_run = reading_.IsOn("dry-run");
    run.json = reading_.IsOn("json");
    run.notes = std::move(notes_);
    return run;
  }

  const FlagReading& reading_;
  const Host& host_;
  JobDraft draft_;
  const GivenFlag* any_port_ = nullptr;                     // the endpoint's flag if its port is 0
  std::optional<std::pair<Origin, std::string>> protocol_;  // of etcd
  std::vector<std::string> errors_;
  std::vector<std::string> notes_;
};

}  // namespace

Command MakeRunCommand(const FlagReading& reading, const Host& host) {
  return RunOptions(reading, host).Make();
}

int Verbosity(const FlagReading& reading) {
  return (reading.IsOn("verbose") ? 1 : 0) - (reading.IsOn("quiet") ? 1 : 0);
}

std::string VerbosityConflict(const FlagReading& reading) {
  const GivenFlag* const verbose = reading.Find("verbose");
  const GivenFlag* const quiet = reading.Find("quiet");
  if (verbose == nullptr || quiet == nullptr) return "";
  return absl::StrCat(quiet->origin.place, ": conflicts with ", verbose->origin.place,
                      "; give one of them");
}

}  // namespace ddprun
