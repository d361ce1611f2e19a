#include "launcher/config/cli.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/config/flags.h"
#include "launcher/config/operator_options.h"
#include "launcher/config/run_options.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr absl::string_view kRunUsage =
    "Starts a data-parallel training job on this node, and restarts it when a worker fails.\n"
    "\n"
    "  ddprun [OPTIONS] [--] COMMAND [ARGS...]        start a job on this node\n"
    "  ddprun -c job.yaml [OPTIONS] [-- COMMAND...]   the same, from a file\n"
    "  ddprun rendezvous --listen HOST:PORT           where the nodes of a job meet\n"
    "  ddprun validate job.yaml                       print the resolved job, or what is wrong\n"
    "  ddprun status | stop JOB | drain NODE | events talk to a running rendezvous\n"
    "  ddprun slurm job.yaml [--dry-run]              write the batch script and submit it\n"
    "  ddprun doctor                                  check this node before a job does\n"
    "  ddprun certs DIR [--host NAME]...              make a job CA and node certificates\n"
    "  ddprun completion bash|zsh                     what a shell needs to complete ddprun\n"
    "  ddprun version\n"
    "  ddprun help [SUBCOMMAND]\n"
    "\n"
    "What follows COMMAND belongs to COMMAND. COMMAND runs under python3 (or $PYTHON_EXEC) if it\n"
    "is called *.py. Names take dashes or underscores. A flag wins over the environment, that\n"
    "over the file. --nnodes, for one, is DDPRUN_NNODES or PET_NNODES in the environment.\n"
    "\n";

constexpr absl::string_view kRendezvousUsage =
    "Runs the rendezvous, where the agents of a job's nodes meet and get their ranks. One serves\n"
    "many jobs.\n"
    "\n"
    "  ddprun rendezvous --listen HOST:PORT [OPTIONS]\n"
    "\n";

constexpr absl::string_view kValidateUsage =
    "Prints the job that a file describes, with every default, as a job file. When something is\n"
    "wrong with it: FILE:LINE:COLUMN: KEY: what was expected, and exit code 65.\n"
    "\n"
    "  ddprun validate FILE [OPTIONS]\n"
    "\n";

constexpr absl::string_view kCertsUsage =
    "Makes a certificate authority in DIR (ca.crt, ca.key), unless it has one, and a certificate "
    "of\n"
    "it for each node (NODE.crt, NODE.key), for --tls-ca, --tls-cert and --tls-key. Nothing is\n"
    "written over. Keep ca.key to yourself; a node needs ca.crt and its own two files.\n"
    "\n"
    "  ddprun certs DIR [--host NAME[,NAME...]]... [--name NAME] [--days N]\n"
    "\n";

constexpr absl::string_view kSlurmUsage =
    "Writes the batch script of a job file and submits it to Slurm. The file's section `slurm` "
    "says\n"
    "what to ask for. The script makes the job survive preemption, time limits and lost nodes;\n"
    "docs/slurm.md.\n"
    "\n"
    "  ddprun slurm FILE [--dry-run] [-- OPTIONS OF SBATCH...]\n"
    "\n";

constexpr absl::string_view kDoctorUsage =
    "Checks whether a job can run on this node: names and addresses, ports, the clock, limits, "
    "memory,\n"
    "GPUs, the libraries of COMMAND, and credentials. Takes the options of a job, and starts "
    "nothing.\n"
    "Exit code 1 if something would keep the job from running.\n"
    "\n"
    "  ddprun doctor [--json] [OPTIONS] [--] [COMMAND [ARGS...]]\n"
    "\n";

constexpr absl::string_view kCompletionUsage =
    "Prints what a shell needs to complete the flags and subcommands of ddprun. For this shell:\n"
    "\n"
    "  source <(ddprun completion bash)               or zsh\n"
    "\n"
    "An installed ddprun has it in share/bash-completion and share/zsh already.\n";

// A word that is a subcommand when it is the very first argument.
enum class Subcommand {
  kRendezvous,
  kValidate,
  kCerts,
  kSlurm,
  kDoctor,
  kStatus,
  kStop,
  kDrain,
  kEvents,
  kCompletion,
  kVersion,
  kHelp
};

struct SubcommandName {
  absl::string_view name;
  Subcommand subcommand;
};

constexpr SubcommandName kSubcommands[] = {
    {"rendezvous", Subcommand::kRendezvous}, {"validate", Subcommand::kValidate},
    {"version", Subcommand::kVersion},       {"help", Subcommand::kHelp},
    {"status", Subcommand::kStatus},         {"stop", Subcommand::kStop},
    {"drain", Subcommand::kDrain},           {"events", Subcommand::kEvents},
    {"slurm", Subcommand::kSlurm},           {"doctor", Subcommand::kDoctor},
    {"certs", Subcommand::kCerts},           {"completion", Subcommand::kCompletion},
};

constexpr std::int64_t kMostDays = 36'500;

std::optional<Subcommand> FindSubcommand(absl::string_view word) {
  for (const SubcommandName& entry : kSubcommands) {
    if (entry.name == word) return entry.subcommand;
  }
  return std::nullopt;
}

std::optional<OperatorCommand::Kind> OperatorKind(Subcommand subcommand) {
  switch (subcommand) {
    case Subcommand::kStatus:
      return OperatorCommand::Kind::kStatus;
    case Subcommand::kStop:
      return OperatorCommand::Kind::kStop;
    case Subcommand::kDrain:
      return OperatorCommand::Kind::kDrain;
    case Subcommand::kEvents:
      return OperatorCommand::Kind::kEvents;
    default:
      return std::nullopt;
  }
}

HelpCommand HelpFor(absl::string_view usage, absl::Span<const FlagSpec> flags) {
  return {absl::StrCat(usage, DescribeFlags(flags))};
}

CommandLineError Usage(const std::vector<std::string>& errors) {
  return {kExitUsage, absl::StrJoin(errors, "\n")};
}

// What --help, --version and misread flags lead to, whatever the subcommand.
std::optional<Command> EarlyEnd(const FlagReading& reading, absl::string_view usage,
                                absl::Span<const FlagSpec> flags) {
  if (reading.immediate_help) return HelpFor(usage, flags);
  if (reading.immediate_version) return VersionCommand{};
  if (!reading.errors.empty()) return Usage(reading.errors);
  return std::nullopt;
}

Command ParseRun(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(RunFlags(), arguments, Positionals::kEndOptions, host);
  if (auto end = EarlyEnd(reading, kRunUsage, RunFlags())) return *std::move(end);
  return MakeRunCommand(reading, host);
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

// The absolute path of "unix:PATH"; empty for anything else.
std::string UnixSocketOf(absl::string_view text, const Host& host) {
  if (!absl::ConsumePrefix(&text, "unix:") || text.empty()) return "";
  return (std::filesystem::path(host.CurrentDirectory()) / std::string(text))
      .lexically_normal()
      .string();
}

Command ParseRendezvous(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(RendezvousFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, kRendezvousUsage, RendezvousFlags())) return *std::move(end);
  std::vector<std::string> errors;
  for (const std::string& argument : reading.rest) {
    errors.push_back(
        absl::StrCat("rendezvous: expected options only (found ", Quoted(argument), ")"));
  }
  if (std::string conflict = VerbosityConflict(reading); !conflict.empty()) {
    errors.push_back(std::move(conflict));
  }
  RendezvousCommand command;
  const GivenFlag* const listen = reading.Find("listen");
  const std::string listen_value = listen == nullptr ? "" : listen->value;
  const auto endpoint = ParseEndpoint(listen_value, 0, std::nullopt);
  if (std::string socket = UnixSocketOf(listen_value, host); !socket.empty()) {
    command.socket = std::move(socket);
    if (reading.Find("port-file") != nullptr) {
      errors.push_back("--port-file: a Unix socket has no port");
    }
  } else if (endpoint.has_value()) {
    command.host = endpoint->host;
    command.port = endpoint->port;
  } else {
    errors.push_back(
        absl::StrCat(listen == nullptr ? "--listen" : listen->origin.place,
                     ": expected HOST:PORT, the port from 0 (any free one) to 65535, such as "
                     "127.0.0.1:29400, or unix:/PATH (found ",
                     listen == nullptr ? "none" : Quoted(listen_value), ")"));
  }
  if (const GivenFlag* const idle = reading.Find("until-idle"); idle != nullptr) {
    command.until_idle = ParseDuration(idle->value);
    if (!command.until_idle.has_value()) {
      errors.push_back(absl::StrCat(idle->origin.place, ": expected a duration such as 60s (found ",
                                    Quoted(idle->value), ")"));
    }
  }
  if (const GivenFlag* const starter = reading.Find("starter"); starter != nullptr) {
    int pid = 0;
    if (!absl::SimpleAtoi(starter->value, &pid) || pid <= 0) {
      errors.push_back(absl::StrCat(starter->origin.place, ": expected a process id (found ",
                                    Quoted(starter->value), ")"));
    } else if (!command.until_idle.has_value()) {
      errors.push_back(absl::StrCat(starter->origin.place, ": goes with --until-idle only"));
    }
    command.starter = pid;
  }
  if (!errors.empty()) return Usage(errors);
  const auto path = [&](const char* flag) -> std::string {
    const GivenFlag* const given = reading.Find(flag);
    if (given == nullptr || given->value.empty()) return "";
    return (std::filesystem::path(host.CurrentDirectory()) / given->value)
        .lexically_normal()
        .string();
  };
  command.port_file = path("port-file");
  command.state_dir = path("state-dir");
  command.log_file = path("log-file");
  command.events_file = path("events-file");
  // A rendezvous that ends with its job leaves nothing behind.
  if (command.events_file.empty() && !command.state_dir.empty() && !command.until_idle) {
    command.events_file = command.state_dir + "/events.jsonl";
  }
  command.credentials = Credentials(reading, host);
  command.insecure = reading.IsOn("insecure");
  command.verbosity = Verbosity(reading);
  return command;
}

Command ParseValidate(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(ValidateFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, kValidateUsage, ValidateFlags())) return *std::move(end);
  if (const std::string conflict = VerbosityConflict(reading); !conflict.empty()) {
    return Usage({conflict});
  }
  if (reading.rest.size() != 1) {
    return Usage({absl::StrCat("validate: expected one job file (found ", reading.rest.size(),
                               "); ddprun validate FILE")});
  }
  return ValidateCommand{reading.rest.front(), reading.IsOn("json"), Verbosity(reading)};
}

Command ParseCerts(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(CertsFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, kCertsUsage, CertsFlags())) return *std::move(end);
  std::vector<std::string> errors;
  CertsCommand command;
  if (reading.rest.size() != 1 || reading.rest.front().empty()) {
    errors.push_back(absl::StrCat("certs: expected one folder (found ", reading.rest.size(),
                                  "); ddprun certs DIR"));
  } else {
    command.folder =
        (std::filesystem::path(host.CurrentDirectory()) / reading.rest.front()).lexically_normal();
  }
  const GivenFlag* const name = reading.Find("name");
  const std::string user = host.Environment("USER").value_or("");
  command.name = name != nullptr ? name->value : user.empty() ? "ddprun" : user;
  for (const std::string& node : reading.FindAll("host")) {
    command.nodes.push_back(absl::StrSplit(node, ','));
  }
  if (const GivenFlag* const days = reading.Find("days"); days != nullptr) {
    const auto number = ParseWholeNumber(days->value);
    if (!number.has_value() || *number < 1 || *number > kMostDays) {
      errors.push_back(absl::StrCat(days->origin.place, ": expected a whole number from 1 to ",
                                    kMostDays, " (found ", Quoted(days->value), ")"));
    } else {
      command.days = static_cast<int>(*number);
    }
  }
  if (!errors.empty()) return Usage(errors);
  return command;
}

Command ParseSlurm(const std::vector<std::string>& arguments, const Host& host) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const FlagReading reading =
      ReadFlags(SlurmFlags(), {arguments.begin(), dashes}, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, kSlurmUsage, SlurmFlags())) return *std::move(end);
  if (reading.rest.size() != 1) {
    return Usage({absl::StrCat("slurm: expected one job file (found ", reading.rest.size(),
                               "); ddprun slurm FILE [--dry-run] [-- OPTIONS OF SBATCH...]")});
  }
  SlurmCommand command{reading.rest.front(), reading.IsOn("dry-run"), {}};
  if (dashes != arguments.end()) command.sbatch_options.assign(dashes + 1, arguments.end());
  return command;
}

// As for a job, but that a command is not needed.
Command ParseDoctor(const std::vector<std::string>& arguments, const Host& host) {
  FlagReading reading = ReadFlags(RunFlags(), arguments, Positionals::kEndOptions, host);
  if (auto end = EarlyEnd(reading, kDoctorUsage, RunFlags())) return *std::move(end);
  const bool json = reading.IsOn("json");
  std::erase_if(reading.given, [](const GivenFlag& flag) { return flag.spec->name == "json"; });
  const bool nothing_to_run = reading.rest.empty() && reading.Find("config") == nullptr;
  if (nothing_to_run) reading.rest = {"true"};
  Command job = MakeRunCommand(reading, host);
  auto* const run = std::get_if<RunCommand>(&job);
  if (run == nullptr) return job;
  if (nothing_to_run) run->config.command.clear();
  return DoctorCommand{std::move(run->config), json};
}

Command ParseCompletion(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1) {
    if (arguments.front() == "bash") return CompletionCommand{CompletionCommand::Shell::kBash};
    if (arguments.front() == "zsh") return CompletionCommand{CompletionCommand::Shell::kZsh};
    if (arguments.front() == "--help" || arguments.front() == "-h") {
      return HelpFor(kCompletionUsage, {});
    }
  }
  return Usage(
      {absl::StrCat("completion: expected bash or zsh (found ",
                    arguments.empty() ? "nothing" : Quoted(absl::StrJoin(arguments, " ")), ")")});
}

Command ParseOperator(OperatorCommand::Kind kind, const std::vector<std::string>& arguments,
                      const Host& host) {
  const absl::Span<const FlagSpec> flags = OperatorFlags(kind);
  const FlagReading reading = ReadFlags(flags, arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, OperatorUsage(kind), flags)) return *std::move(end);
  return MakeOperatorCommand(kind, reading, Credentials(reading, host));
}

// `arguments` are what follows `ddprun help`.
Command ParseHelp(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return HelpFor(kRunUsage, RunFlags());
  if (arguments.size() == 1) {
    const auto topic = FindSubcommand(arguments.front());
    if (topic == Subcommand::kRendezvous) return HelpFor(kRendezvousUsage, RendezvousFlags());
    if (topic == Subcommand::kCerts) return HelpFor(kCertsUsage, CertsFlags());
    if (topic == Subcommand::kSlurm) return HelpFor(kSlurmUsage, SlurmFlags());
    if (topic == Subcommand::kDoctor) return HelpFor(kDoctorUsage, RunFlags());
    if (topic == Subcommand::kCompletion) return HelpFor(kCompletionUsage, {});
    if (topic == Subcommand::kValidate) return HelpFor(kValidateUsage, ValidateFlags());
    if (const auto kind = topic ? OperatorKind(*topic) : std::nullopt) {
      return HelpFor(OperatorUsage(*kind), OperatorFlags(*kind));
    }
  }
  return Usage(
      {absl::StrCat("help: expected nothing, rendezvous, validate, slurm, doctor, certs, status, "
                    "stop, drain, events or completion (found ",
                    Quoted(absl::StrJoin(arguments, " ")), ")")});
}

}  // namespace

Command ParseCommandLine(int argc, const char* const* argv, const Host& host) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto subcommand = arguments.empty() ? std::nullopt : FindSubcommand(arguments.front());
  if (!subcommand.has_value()) return ParseRun(arguments, host);
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (const auto kind = OperatorKind(*subcommand)) return ParseOperator(*kind, rest, host);
  switch (*subcommand) {
    case Subcommand::kRendezvous:
      return ParseRendezvous(rest, host);
    case Subcommand::kValidate:
      return ParseValidate(rest, host);
    case Subcommand::kCerts:
      return ParseCerts(rest, host);
    case Subcommand::kSlurm:
      return ParseSlurm(rest, host);
    case Subcommand::kDoctor:
      return ParseDoctor(rest, host);
    case Subcommand::kCompletion:
      return ParseCompletion(rest);
    case Subcommand::kVersion:
      if (!rest.empty()) {
        return Usage({absl::StrCat("version: expected nothing after it (found ",
                                   Quoted(rest.front()), ")")});
      }
      return VersionCommand{};
    case Subcommand::kHelp:
      return ParseHelp(rest);
    default:
      break;  // the operators' were parsed above
  }
  return ParseRun(arguments, host);
}

}  // namespace ddprun
