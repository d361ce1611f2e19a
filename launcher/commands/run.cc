#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/run/run_directory.h"
#include "launcher/agent/run/run_retention.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/schedulers/lost_batch_host.h"
#include "launcher/config/host.h"
#include "launcher/config/job_printer.h"
#include "launcher/config/machine/cpus.h"
#include "launcher/config/machine/numa_binding.h"
#include "launcher/connection/connection.h"
#include "launcher/connection/credentials.h"
#include "launcher/connection/etcd/meeting_keys.h"
#include "launcher/log.h"
#include "launcher/metrics/serve_metrics.h"
#include "launcher/node/node_check.h"
#include "launcher/node/node_facts.h"
#include "launcher/os/descriptor_limit.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/file_util.h"
#include "launcher/os/local_address.h"
#include "launcher/os/process/guarded_process_runner.h"
#include "launcher/os/process/task_shim.h"
#include "launcher/os/signal_source.h"
#include "launcher/report.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/report_gone.h"
#include "rendezvous/client/system_resolver.h"
#include "worker/contract/environment.h"

namespace ddprun {
namespace {

AgentId DrawAgentId() {
  AgentId agent_id;
  while (agent_id.value == 0) {
    if (getrandom(&agent_id.value, sizeof agent_id.value, 0) < 0) agent_id.value = getpid();
  }
  return agent_id;
}

std::vector<std::string> InheritedEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

// PermissionDenied: no munged on this host. FailedPrecondition: the command line lacks credentials
// or --insecure, or they are unusable. Others: for example, the endpoint cannot be resolved.
int ExitCodeOf(const absl::Status& status) {
  if (absl::IsPermissionDenied(status)) return kExitRefused;
  if (absl::IsFailedPrecondition(status)) return kExitUsage;
  return absl::IsInternal(status) ? kExitInternal : kExitUnavailable;
}

// After a takeover the new leader keeps the ranks of a silent agent for up to this time and a lease
// (docs/internals/leases.md).
constexpr std::chrono::seconds kHoldOfNewLeader{6};

// Reports the end of the agent to the rendezvous that etcd names. Another one may lead meanwhile.
void TellByEtcd(const JobConfig& config, const Header& agent, Duration limit) {
  constexpr std::chrono::milliseconds kOneTry{1000};
  constexpr std::chrono::milliseconds kBetweenTries{100};
  const auto keys = MeetingKeys::Open(config.rendezvous.etcd);
  if (!keys.ok()) return;
  const auto until = EventLoop::Clock::now() + limit;
  while (EventLoop::Clock::now() < until) {
    const auto seen = (*keys)->Read();
    if (seen.ok() && !seen->endpoint.empty()) {
      const auto credentials =
          LoadCredentials(config.rendezvous.credentials, seen->endpoint, config.insecure);
      if (credentials.ok() && ReportGone({{seen->endpoint, *credentials}}, agent, kOneTry).ok()) {
        // A rendezvous that has lost the leadership meanwhile may still have answered OK.
        const auto again = (*keys)->Read();
        if (again.ok() && again->endpoint == seen->endpoint) return;
      }
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

// `last`: the endpoint, by index, from which a message came last.
void TellThatAgentIsGone(const JobConfig& config, const Header& agent, int last) {
  // After the lease the rendezvous knows without a report.
  Duration limit = config.spec.lease;
  if (config.rendezvous.several()) limit += kHoldOfNewLeader;
  if (config.rendezvous.in_etcd()) return TellByEtcd(config, agent, limit);
  const std::vector<std::string> endpoints = PlacesOf(config.rendezvous);
  const auto credentials =
      LoadCredentialsOfAll(config.rendezvous.credentials, endpoints, config.insecure);
  if (!credentials.ok()) return;
  std::vector<RendezvousPlace> places = {{endpoints[last], (*credentials)[last]}};
  if (config.rendezvous.several()) {
    for (int place = 0; place < static_cast<int>(endpoints.size()); ++place) {
      if (place != last) places.push_back({endpoints[place], (*credentials)[place]});
    }
  }
  ReportGone(places, agent, limit).IgnoreError();
}

// The guardian's duties after the agent was killed and its workers are gone. `run` and `heard_at`
// must outlive the guardian's start. The guardian has its own copy of `run`, and shares `heard_at`
// with the agent.
GuardianOptions LastDuties(const JobConfig& config, AgentId agent_id, RunDirectory* run,
                           const SharedPlace* heard_at) {
  GuardianOptions options;
  options.on_agent_killed = [&config, agent_id, run, heard_at](const std::vector<pid_t>& left) {
    // If workers are left, or no rendezvous is reached, the rendezvous waits for the end of the
    // lease.
    if (left.empty() && !config.standalone()) {
      const Header agent{config.rendezvous.id, config.rendezvous.requeue_number, Generation{-1},
                         agent_id};
      TellThatAgentIsGone(config, agent, heard_at->Get());
    }
    run->RemoveTemporary();
  };
  return options;
}

// Logs the job's end, writes --report, and returns the exit code.
int Conclude(const Verdict& verdict, const ReportContext& context, const JobConfig& config,
             const Console& console) {
  for (const std::string& line : DescribeVerdict(verdict, context)) {
    verdict.outcome == Outcome::kSucceeded ? LogInfo(line) : LogError(line);
  }
  if (!config.told.report.empty()) {
    const absl::Status status = WriteReport(config.told.report, verdict, context);
    if (!status.ok()) LogError(status.message());  // the job's own code matters more
  }
  if (const auto path = PosixHost().Environment(env::kErrorFile); path && !path->empty()) {
    const absl::Status status = CopyErrorFile(*path, verdict);
    if (!status.ok()) LogError(status.message());
  }
  console.err->Flush(EventLoop::Clock::now() + std::chrono::seconds(2));
  return verdict.exit_code;
}

// The verdict of a job that was not started on this node.
Verdict NotStarted(const absl::Status& status, int exit_code) {
  const Outcome outcome = exit_code == kExitUnavailable ? Outcome::kUnreachable
                          : exit_code == kExitRefused   ? Outcome::kRefused
                                                        : Outcome::kFailed;
  return Verdict::OfAgent(outcome, exit_code, std::string(status.message()));
}

// The failures that --preflight finds on this node, or "".
std::string WhyNotReady(const JobConfig& config) {
  std::vector<std::string> failures;
  for (const Finding& finding : JudgeNode(config, LookAtNode(config, PosixHost()))) {
    const std::string text = absl::StrCat("preflight: ", finding.name, ": ", finding.text);
    if (finding.level == Finding::Level::kFailure) failures.push_back(text);
    if (finding.level == Finding::Level::kWarning) LogWarning(text);
  }
  return absl::StrJoin(failures, "; ");
}

struct NodeReadiness {
  std::string why_ineligible{};        // why it must stay out of the job; empty: it may run
  std::vector<CpuList> worker_cpus{};  // --numa-binding
};

NodeReadiness LookAtThisNode(const JobConfig& config) {
  const std::string failures = config.rendezvous.preflight ? WhyNotReady(config) : "";
  if (!failures.empty()) return {failures};
  const auto binding = BindWorkers(config, PosixHost());
  if (!binding.ok()) return {std::string(binding.status().message())};
  for (const std::string& warning : binding->warnings) LogWarning(warning);
  for (std::size_t i = 0; i < binding->cpus.size(); ++i) {
    LogDebug(absl::StrCat("--numa-binding ", config.program.numa_binding, ": local rank ", i,
                          " runs on CPUs ", FormatCpuList(binding->cpus[i])));
  }
  return {"", binding->cpus};
}

ReportContext ContextOf(const JobConfig& config, const std::string& run_dir) {
  const LaunchPlace& place = config.place;
  return {config.rendezvous.id, place.node_name.empty() ? HostName() : place.node_name, run_dir,
          config.rendezvous.requeue_number, place.slurm_requeues};
}

// For jobs that may lose nodes. Other jobs lose their allocation with the node, and Slurm requeues
// them by itself.
void RequeueIfBatchHostIsGone(const JobConfig& config, const Verdict& verdict, bool has_joined,
                              const Console& console) {
  const bool may_lose_nodes =
      config.nodes.min < config.nodes.max || config.nodes.max < config.place.all_nodes;
  const bool was_in_it = verdict.decided_by_agent && has_joined;
  if (config.place.slurm_requeues && may_lose_nodes && verdict.outcome == Outcome::kUnreachable &&
      was_in_it && RequeueWithoutBatchHost()) {
    LogWarning("the node with the batch script is gone: the job goes back to the queue");
    console.err->Flush(EventLoop::Clock::now() + std::chrono::seconds(2));
  }
}

// Notes for a person, before the job begins.
void LogRunNotes(const RunCommand& command, const RunDirectory& run) {
  for (const std::string& note : command.notes) LogDebug(note);
  if (!run.why_no_snapshots().empty()) {
    LogWarning(
        absl::StrCat("no snapshots in memory, only durable checkpoints: ", run.why_no_snapshots()));
  }
  if (command.config.logs.keep_runs > 0 && !run.why_not_owned().empty()) {
    LogWarning(
        absl::StrCat("logs.keep_runs will never remove ", run.path(), ": ", run.why_not_owned()));
  }
}

// Called on RunRetention's thread. Flushes the console, because the job may be over already.
void LogRemovedRuns(const RemovedRuns& removed, ConsoleWriter* console) {
  for (const std::string& path : removed.paths) {
    LogInfo(absl::StrCat("logs.keep_runs: removed the old run folder ", path));
  }
  if (!removed.error.ok()) LogWarning(removed.error.message());
  console->Flush(EventLoop::Clock::now() + std::chrono::seconds(1));
}

ConsoleWriter::Options ConsoleOptions(const absl::StatusOr<RunDirectory>& run) {
  ConsoleWriter::Options options;
  if (run.ok()) options.log_directory = run->path();
  return options;
}

int PrintConfig(const RunCommand& command) {
  const JobConfig& config = command.config;
  std::fputs((command.json ? ToJson(config) : ToYaml(config)).c_str(), stdout);
  return 0;
}

RunRetention RetentionOf(const JobConfig& config, const Console& console) {
  return RunRetention(
      {config.log_dir, config.rendezvous.id, HostName(), config.logs.keep_runs},
      [err = console.err](const RemovedRuns& removed) { LogRemovedRuns(removed, err.get()); });
}

}  // namespace

int RunJob(const RunCommand& command) {
  const JobConfig& config = command.config;
  if (command.dry_run) return PrintConfig(command);
  if (config.place.ends_with_process) ContinueUnderTaskShim();
  std::vector<std::string> environment = InheritedEnvironment();
  UseSystemResolver();
  // Made before any thread starts: threads inherit the blocked signals.
  Agent* running = nullptr;
  EventLoop loop;
  SignalSource signals(
      &loop, [&running](int signo, pid_t) { running->OnSignal(signo); },
      {[&running] { running->OnSuspend(); }, [&running] { running->OnContinue(); }});
  auto run =
      RunDirectory::Create(config.log_dir, config.rendezvous.id, config.rendezvous.requeue_number);
  const AgentId agent_id = DrawAgentId();
  SharedPlace heard_at;
  auto runner = run.ok()
                    ? GuardedProcessRunner::Start(LastDuties(config, agent_id, &*run, &heard_at))
                    : absl::StatusOr<std::unique_ptr<GuardedProcessRunner>>(run.status());
  RaiseDescriptorLimit();  // after the guardian's start: workers keep the user's limit
  const Console console = OpenConsole(STDOUT_FILENO, STDERR_FILENO, ConsoleOptions(run));
  InitLog(console.err, config.logs.verbosity);
  const ReportContext context = ContextOf(config, run.ok() ? run->path() : "");
  const auto fail = [&](const absl::Status& status, int exit_code) {
    return Conclude(NotStarted(status, exit_code), context, config, console);
  };
  if (!runner.ok()) return fail(runner.status(), kExitInternal);
  LogRunNotes(command, *run);
  const RunRetention retention = RetentionOf(config, console);
  const auto [why_ineligible, worker_cpus] = LookAtThisNode(config);
  const std::string out = absl::StrCat("this node stays out: ", why_ineligible);
  const auto stay_out = [&] {
    return Conclude(Verdict::OfAgent(Outcome::kLeft, kExitUnavailable, out), context, config,
                    console);
  };
  if (!why_ineligible.empty() && config.standalone()) return stay_out();
  const auto connection =
      PrepareConnection(config, *run, DDPRUN_VERSION, agent_id.value, &heard_at, &loop);
  if (!connection.ok() && !why_ineligible.empty()) return stay_out();
  if (!connection.ok()) return fail(connection.status(), ExitCodeOf(connection.status()));
  // The node still joins: the others must not wait for it, and it may have to run their rendezvous.
  if (!why_ineligible.empty()) LogError(out);
  AgentOptions options{config,   context.host,           connection->node_address,
                       agent_id, std::move(environment), why_ineligible};
  options.worker_cpus = worker_cpus;
  const auto endpoint =
      ServeMetrics({context.job, context.host, DDPRUN_VERSION}, context.run_dir, &options);
  if (!endpoint.ok()) return fail(endpoint.status(), kExitUsage);
  Agent agent(std::move(options), &loop, runner->get(), connection->client.get(), console, &*run);
  running = &agent;
  loop.Watch((*runner)->guardian_pidfd(), EPOLLIN,
             [&](std::uint32_t) { agent.OnWorkersLost((*runner)->Lost()); });
  const auto verdict = agent.Run();
  loop.Unwatch((*runner)->guardian_pidfd());
  if (!verdict.ok()) return fail(verdict.status(), kExitInternal);
  const int exit_code = Conclude(*verdict, context, config, console);
  RequeueIfBatchHostIsGone(config, *verdict, agent.has_joined(), console);
  TellTaskShim(exit_code);
  return exit_code;
}

}  // namespace ddprun
