// The command line of `ddprun`: turns arguments, environment and job file into one command that is
// ready to run. Prints, starts and writes nothing. Call it once, from main.
//
//     std::visit([](const auto& command) { return Execute(command); },
//                ParseCommandLine(argc, argv, PosixHost()));
//
// A setting comes from the first of these that has it: the flag, the environment (DDPRUN_<FLAG>,
// then PET_<FLAG>), the job file, the default.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_CLI_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_CLI_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/config/host.h"
#include "launcher/config/job_config.h"
#include "launcher/config/job_draft.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/limits.h"

namespace ddprun {

// ddprun [OPTIONS] [--] COMMAND [ARGS...]
struct RunCommand {
  JobConfig config;
  bool dry_run = false;  // print `config` and start nothing
  bool json = false;     // print as JSON
  // Accepted settings without effect, one line each; shown at verbosity 1 and above.
  std::vector<std::string> notes;
};

// Address of the rendezvous's page, and who is allowed to see it.
struct HttpConfig {
  std::string host;              // without the brackets of an IPv6 address; empty: no page
  int port = 0;                  // 0: any free one
  std::string certificate_file;  // absolute, like the other paths; empty: none
  std::string key_file;
  std::string read_token_file;
  std::vector<std::string> names;  // accepted in Host headers
  bool is_private = false;         // without a session or token, no job is visible
};

// The etcd that several rendezvous share, and this rendezvous's own entry there.
struct EtcdConfig : EtcdAccess {
  // How long a leader may lead after it sent the last renewal that etcd answered (docs/ha.md).
  std::chrono::milliseconds leader_validity = std::chrono::seconds(5);
  std::string advertised_host;  // host at which agents reach this rendezvous; empty: as in --listen
  int advertised_port = 0;      // 0: as in --listen
};

// ddprun rendezvous --listen HOST:PORT
struct RendezvousCommand {
  std::string socket;       // absolute path of a Unix socket; empty: listens on host and port
  std::string host;         // without the brackets of an IPv6 address
  int port = 0;             // 0: any free one
  std::string port_file;    // absolute; empty: none
  std::string log_file;     // absolute; empty: stderr
  std::string events_file;  // absolute; empty: none
  HttpConfig http;
  EtcdConfig etcd;
  CredentialsConfig credentials;
  // Absolute. Empty: the jobs end with the process, except with `etcd` or `starter`.
  std::string state_dir;
  bool insecure = false;  // asks for no credentials
  // The rendezvous ends when the last job is over, or after this time without a job; nullopt: it
  // serves until a signal.
  std::optional<std::chrono::milliseconds> until_idle;
  // With until_idle: pid of the agent that started this rendezvous. When the agent has ended, the
  // rendezvous stops waiting for a first job. Without `state_dir` and `etcd`, the jobs are stored
  // in the endpoint's folder (connection/state_home.h).
  std::optional<int> starter;
  int verbosity = 0;  // -1 quiet, 0 normal, 1 verbose
};

// ddprun validate FILE: LoadJobFile(), then ToYaml() or ToJson().
struct ValidateCommand {
  std::string path;  // as given
  bool json = false;
  int verbosity = 0;
};

// ddprun init [OPTIONS] [COMMAND...]
struct InitCommand {
  std::string path = "job.yaml";  // as given
  bool replace = false;           // replace an existing file
  JobDraft draft;                 // settings of the flags, and COMMAND
};

// ddprun without arguments
struct GuideCommand {};

// ddprun certs DIR
struct CertsCommand {
  std::string folder;  // absolute
  std::string name;    // the common name
  // Names and addresses of each node; empty: those of this host.
  std::vector<std::vector<std::string>> nodes;
  int days = kDefaultCertificateDays;
};

// ddprun python-module DIR
struct PythonModuleCommand {
  std::string folder;  // absolute
};

// ddprun status [JOB], stop JOB, drain NODE [JOB], events [JOB], stacks JOB, logs JOB,
// page [JOB], top [JOB]
struct OperatorCommand {
  enum class Kind { kStatus, kStop, kDrain, kEvents, kStacks, kLogs, kPage, kTop };
  // kLogs: which files, and which part of each file.
  struct Logs {
    std::vector<int> ranks{};  // none: all
    std::optional<int> generation{};
    bool out = true;
    bool err = true;
    std::optional<std::int64_t> tail{};  // number of last lines of each file
    std::string grep{};                  // a regular expression; empty: all lines
  };
  Kind kind = Kind::kStatus;
  std::string endpoint;              // HOST:PORT, several of them with commas, or unix:/PATH
  std::optional<EtcdAccess> etcd{};  // given: `endpoint` is this etcd, which names the rendezvous
  std::chrono::milliseconds timeout = kDefaultAnswerTimeout;
  CredentialsConfig credentials;
  bool insecure = false;                           // the rendezvous on loopback has no credentials
  std::string job;                                 // empty: all
  std::string node;                                // kDrain
  bool json = false;                               // kStatus, kStacks
  bool full = false;                               // kStacks: show all frames
  std::optional<int> rank;                         // kStacks: only this rank
  bool watch = false;                              // kStatus
  bool save = false;                               // kStop
  bool wait = true;                                // kStop: until the job has ended
  bool follow = false;                             // kEvents, kLogs
  std::optional<std::chrono::milliseconds> since;  // how far back; kEvents, kLogs (about)
  bool trace = false;                              // kEvents: as one trace
  Logs logs{};                                     // kLogs
  int verbosity = 0;
};

// ddprun slurm FILE [--dry-run] [-- SBATCH_OPTIONS...]
struct SlurmCommand {
  std::string path;  // as given
  bool dry_run = false;
  std::vector<std::string> sbatch_options;
};

// ddprun kubernetes FILE [--jobset]
struct KubernetesCommand {
  std::string path;  // as given
  bool jobset = false;
};

// ddprun doctor [OPTIONS OF A JOB] [--etcd HOST:PORT,...] [COMMAND...]
struct DoctorCommand {
  // The job for which the node is checked; `command` is empty if none was given.
  JobConfig config;
  EtcdConfig etcd;  // an etcd to check, too
  bool json = false;
};

// ddprun stacks --pid PID...
struct StacksCommand {
  std::vector<int> pids;  // at least one, each once
  bool json = false;
  bool full = false;  // show all frames
  std::chrono::milliseconds timeout = kDefaultAnswerTimeout;
};

// ddprun completion bash|zsh: CompletionScript().
struct CompletionCommand {
  enum class Shell { kBash, kZsh };
  Shell shell = Shell::kBash;
};

// ddprun version, ddprun --version
struct VersionCommand {};

// ddprun help, --help: print `text` to stdout, exit 0.
struct HelpCommand {
  std::string text;
};

// Print `message` (one error per line, without a final newline) to stderr, exit with `exit_code`.
struct CommandLineError {
  int exit_code = kExitUsage;
  std::string message;
};

using Command = std::variant<RunCommand, GuideCommand, RendezvousCommand, ValidateCommand,
                             InitCommand, CertsCommand, PythonModuleCommand, OperatorCommand,
                             SlurmCommand, KubernetesCommand, DoctorCommand, StacksCommand,
                             CompletionCommand, VersionCommand, HelpCommand, CommandLineError>;

// `argv[0]` is the program's name, as in main. Reads the job file that -c names.
Command ParseCommandLine(int argc, const char* const* argv, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_CLI_H_
