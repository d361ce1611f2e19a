#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/agent.h"
#include "launcher/commands/commands.h"
#include "launcher/config/job_printer.h"
#include "launcher/log.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/file_util.h"
#include "launcher/os/local_address.h"
#include "launcher/os/posix_process_runner.h"
#include "launcher/os/signal_source.h"
#include "launcher/report.h"
#include "launcher/run_directory.h"
#include "rendezvous/client/grpc_rendezvous_client.h"
#include "rendezvous/service/rendezvous_server.h"

namespace ddprun {
namespace {

Incarnation DrawIncarnation() {
  Incarnation incarnation;
  while (incarnation.value == 0) {
    if (getrandom(&incarnation.value, sizeof incarnation.value, 0) < 0)
      incarnation.value = getpid();
  }
  return incarnation;
}

std::vector<std::string> InheritedEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

// "[::1]:29400" → "::1"
std::string HostOf(const std::string& endpoint) {
  std::string host = endpoint.substr(0, endpoint.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

// The address of this node for the others.
absl::StatusOr<std::string> NodeAddress(const JobConfig& config) {
  if (!config.local_addr.empty()) return config.local_addr;
  if (config.standalone()) return std::string("127.0.0.1");
  return LocalAddressTowards(HostOf(config.rendezvous.endpoint), 1);
}

int Fail(const absl::Status& status, int exit_code, const Console& console) {
  LogError(status.message());
  console.err->Flush(EventLoop::Clock::now() + std::chrono::seconds(2));
  return exit_code;
}

// The rendezvous of a job on one node, in this process. It stops and goes on together with its only
// agent (Ctrl-Z), so silence means nothing: no lease.
absl::StatusOr<std::unique_ptr<RendezvousServer>> StartOwnRendezvous(const std::string& listen) {
  RendezvousServer::Options options;
  options.listen = listen;
  options.round.lease = std::nullopt;
  options.log = [](std::string_view, std::string_view text) { LogDebug(std::string(text)); };
  return RendezvousServer::Start(std::move(options));
}

}  // namespace

int RunJob(const RunCommand& command) {
  const JobConfig& config = command.config;
  if (command.dry_run) {
    std::fputs((command.json ? ToJson(config) : ToYaml(config)).c_str(), stdout);
    return 0;
  }
  // Before any thread is started: they inherit the blocked signals.
  Agent* running = nullptr;
  EventLoop loop;
  SignalSource signals(&loop, [&running](int signo, pid_t) { running->OnSignal(signo); });
  auto run = RunDirectory::Create(config.log_dir, config.rendezvous.id);
  ConsoleWriter::Options console_options;
  if (run.ok()) console_options.log_directory = run->path();
  const Console console = OpenConsole(STDOUT_FILENO, STDERR_FILENO, console_options);
  InitLog(console.err, config.verbosity);
  if (!run.ok()) return Fail(run.status(), kExitInternal, console);
  for (const std::string& note : command.notes) LogDebug(note);

  const auto address = NodeAddress(config);
  if (!address.ok()) return Fail(address.status(), kExitUnavailable, console);
  std::unique_ptr<RendezvousServer> server;
  GrpcRendezvousClient::Options connection{config.rendezvous.endpoint,
                                           config.rendezvous.connect_timeout};
  if (config.standalone()) {
    connection.endpoint = absl::StrCat("unix:", run->sockets(), "/rendezvous.sock");
    auto own = StartOwnRendezvous(connection.endpoint);
    if (!own.ok()) return Fail(own.status(), kExitInternal, console);
    server = *std::move(own);
  }
  GrpcRendezvousClient client(connection);
  PosixProcessRunner runner;
  const ReportContext context{config.rendezvous.id, HostName(), run->path()};
  Agent agent({config, context.host, *address, DrawIncarnation(), InheritedEnvironment()}, &loop,
              &runner, &client, console, &*run);
  running = &agent;
  const auto verdict = agent.Run();
  if (!verdict.ok()) return Fail(verdict.status(), kExitInternal, console);

  for (const std::string& line : DescribeVerdict(*verdict, context)) {
    verdict->outcome == "succeeded" ? LogInfo(line) : LogError(line);
  }
  console.err->Flush(EventLoop::Clock::now() + std::chrono::seconds(2));
  if (!config.report.empty()) {
    const absl::Status status = WriteFileAtomic(config.report, VerdictToJson(*verdict, context));
    if (!status.ok()) Fail(status, 0, console);  // the job's own code matters more
  }
  return verdict->exit_code;
}

}  // namespace ddprun
