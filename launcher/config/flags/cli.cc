#include "launcher/config/flags/cli.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/flags.h"
#include "launcher/config/flags/run_options.h"
#include "launcher/config/flags/subcommands.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr absl::string_view kRunUsage =
    "Starts a data-parallel training job on this node, and restarts it when a worker fails.\n"
    "\n"
    "  ddprun [OPTIONS] [--] COMMAND [ARGS...]        start a job on this node\n"
    "  ddprun -c job.yaml [OPTIONS] [-- COMMAND...]   the same, from a file\n"
    "  ddprun init [COMMAND...]                       write a job file, after three questions or "
    "none\n"
    "  ddprun rendezvous --listen HOST:PORT           where the nodes of a job meet\n"
    "  ddprun validate job.yaml                       print the resolved job, or what is wrong\n"
    "  ddprun status | stop JOB | drain NODE | events look at running jobs, and end them\n"
    "  ddprun logs JOB [--rank RANKS] [--follow]      what its workers have written, from any "
    "host\n"
    "  ddprun stacks JOB | --pid PID                  where ranks, or processes here, are in their "
    "code\n"
    "  ddprun top [JOB]                               jobs, nodes and ranks live, with keys for "
    "orders\n"
    "  ddprun page [JOB]                              print a link to the page of the rendezvous\n"
    "  ddprun slurm job.yaml [--dry-run]              write the batch script and submit it\n"
    "  ddprun kubernetes job.yaml [--jobset]          print the manifest, for kubectl apply\n"
    "  ddprun doctor                                  check this node before a job does\n"
    "  ddprun certs DIR [--host NAME]...              make a job CA and node certificates\n"
    "  ddprun python-module DIR                       write the Python module ddprun to DIR\n"
    "  ddprun completion bash|zsh                     print the completion for this shell\n"
    "  ddprun version                                 print the version\n"
    "  ddprun help [SUBCOMMAND]                       print how a subcommand is used\n"
    "\n"
    "What follows COMMAND belongs to COMMAND. COMMAND runs under python3 (or $PYTHON_EXEC) if it\n"
    "is called *.py. Names take dashes or underscores. A flag wins over the environment, that\n"
    "over the file. --nnodes, for one, is DDPRUN_NNODES or PET_NNODES in the environment.\n"
    "\n";

using Arguments = std::vector<std::string>;

HelpCommand RunHelp() { return HelpFor(kRunUsage, RunFlags()); }

Command ParseRun(const Arguments& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(RunFlags(), arguments, Positionals::kEndOptions, host);
  if (auto end = EarlyEnd(reading, RunHelp)) return *std::move(end);
  if (arguments.empty() && reading.Find("config") == nullptr) return GuideCommand{};
  return MakeRunCommand(reading, host);
}

constexpr absl::string_view kVersionUsage =
    "Prints the version of ddprun.\n"
    "\n"
    "  ddprun version\n"
    "\n";

constexpr absl::string_view kHelpUsage =
    "Prints how ddprun, or a subcommand, is used. --help after the subcommand does the same.\n"
    "\n"
    "  ddprun help [SUBCOMMAND]\n"
    "\n";

bool IsHelpFlag(const Arguments& arguments) {
  return arguments.size() == 1 && (arguments.front() == "--help" || arguments.front() == "-h");
}

HelpCommand VersionHelp() { return HelpFor(kVersionUsage, {}); }

Command ParseVersion(const Arguments& arguments, const Host&) {
  if (IsHelpFlag(arguments)) return VersionHelp();
  if (arguments.empty()) return VersionCommand{};
  return UsageError(
      {absl::StrCat("version: expected nothing after it (found ", Quoted(arguments.front()), ")")});
}

HelpCommand HelpHelp() { return HelpFor(kHelpUsage, {}); }

Command ParseHelp(const Arguments& arguments, const Host& host);

// A subcommand: recognized only as the first argument.
struct Subcommand {
  absl::string_view name;
  Command (*parse)(const Arguments&, const Host&);  // takes the arguments after the name
  HelpCommand (*help)();
};

constexpr Subcommand kSubcommands[] = {
    {"rendezvous", ParseRendezvous, RendezvousHelp},
    {"validate", ParseValidate, ValidateHelp},
    {"init", ParseInit, InitHelp},
    {"slurm", ParseSlurm, SlurmHelp},
    {"kubernetes", ParseKubernetes, KubernetesHelp},
    {"doctor", ParseDoctor, DoctorHelp},
    {"certs", ParseCerts, CertsHelp},
    {"python-module", ParsePythonModule, PythonModuleHelp},
    {"status", ParseStatus, StatusHelp},
    {"stop", ParseStop, StopHelp},
    {"drain", ParseDrain, DrainHelp},
    {"events", ParseEvents, EventsHelp},
    {"logs", ParseLogs, LogsHelp},
    {"stacks", ParseStacks, StacksHelp},
    {"page", ParsePage, PageHelp},
    {"top", ParseTop, TopHelp},
    {"completion", ParseCompletion, CompletionHelp},
    {"version", ParseVersion, VersionHelp},
    {"help", ParseHelp, HelpHelp},
};

const Subcommand* FindSubcommand(absl::string_view word) {
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.name == word) return &subcommand;
  }
  return nullptr;
}

Command ParseHelp(const Arguments& arguments, const Host&) {
  if (arguments.empty()) return RunHelp();
  if (IsHelpFlag(arguments)) return HelpHelp();
  const Subcommand* const topic =
      arguments.size() == 1 ? FindSubcommand(arguments.front()) : nullptr;
  if (topic != nullptr) return topic->help();
  return UsageError({absl::StrCat(
      "help: expected nothing, rendezvous, validate, init, slurm, kubernetes, doctor, "
      "certs, python-module, status, stop, drain, events, logs, stacks, page, top, completion, "
      "version or help (found ",
      Quoted(absl::StrJoin(arguments, " ")), ")")});
}

}  // namespace

HelpCommand HelpFor(absl::string_view usage, absl::Span<const FlagSpec> flags) {
  return {absl::StrCat(usage, DescribeFlags(flags))};
}

CommandLineError UsageError(const std::vector<std::string>& errors) {
  return {kExitUsage, absl::StrJoin(errors, "\n")};
}

std::optional<Command> EarlyEnd(const FlagReading& reading, HelpCommand (*help)()) {
  if (reading.immediate_help) return help();
  if (reading.immediate_version) return VersionCommand{};
  if (!reading.errors.empty()) return UsageError(reading.errors);
  return std::nullopt;
}

CredentialsConfig Credentials(const FlagReading& reading, const Host& host) {
  CredentialsConfig credentials;
  const auto take = [&](absl::string_view name, std::string* value) {
    if (const GivenFlag* const flag = reading.Find(name); flag != nullptr) *value = flag->value;
  };
  take("token-file", &credentials.token_file);
  take("tls-ca", &credentials.tls_ca);
  take("tls-cert", &credentials.tls_cert);
  take("tls-key", &credentials.tls_key);
  take("munge-socket", &credentials.munge_socket);
  credentials.munge = reading.IsOn("munge");
  return AbsolutePaths(std::move(credentials), host);
}

Command ParseCommandLine(int argc, const char* const* argv, const Host& host) {
  const Arguments arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const Subcommand* const subcommand =
      arguments.empty() ? nullptr : FindSubcommand(arguments.front());
  if (subcommand == nullptr) return ParseRun(arguments, host);
  return subcommand->parse({arguments.begin() + 1, arguments.end()}, host);
}

}  // namespace ddprun
