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
    "  ddprun -c job.yaml [OPTIONS] [-- COMMAND...]   start the job of a job file\n"
    "  ddprun init [COMMAND...]                       write a job file\n"
    "  ddprun rendezvous --listen HOST:PORT           run the rendezvous, where nodes meet\n"
    "  ddprun validate job.yaml                       print the resolved job, or its errors\n"
    "  ddprun status | stop JOB | drain NODE | events show jobs and events, end jobs, take nodes "
    "out\n"
    "  ddprun logs JOB [--rank RANKS] [--follow]      print the output of workers, from any host\n"
    "  ddprun stacks JOB | --pid PID                  print the stacks of ranks, or of processes "
    "here\n"
    "  ddprun top [JOB]                               show jobs, nodes and ranks live\n"
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
    "All words after COMMAND are its arguments. A COMMAND named *.py runs under python3 (or\n"
    "$PYTHON_EXEC). Names of flags may have dashes or underscores. Flags win over variables, and\n"
    "variables win over the job file. The variable of --nnodes is DDPRUN_NNODES, or else "
    "PET_NNODES.\n"
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
