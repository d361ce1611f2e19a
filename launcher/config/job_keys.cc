#include "launcher/config/job_keys.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/values.h"
#include "worker/contract/environment.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

// Within what a rendezvous takes (rendezvous/wire/limits.h).
constexpr std::int64_t kMostNodes = 65'536;
constexpr std::int64_t kMostProcesses = 1'024;
constexpr std::int64_t kMostRestarts = 1'000'000;
constexpr std::int64_t kYear = std::int64_t{8'760} * 3'600'000;
constexpr int kDefaultPort = 29400;  // torchrun's, for an endpoint without a port

constexpr JobKey kKeys[] = {
    {"", "command", KeyType::kCommand, 0, 0, [](JobDraft& d) -> Field { return &d.config.command; },
     "The program that every worker runs, and its arguments: a list, or one string that is split "
     "at white space with shell quoting but no expansions. A program named *.py runs under "
     "python3 (or $PYTHON_EXEC). ${local_rank} in an argument becomes the worker's local rank. "
     "May be left out when the command line gives it after --."},
    {"", "no_python", KeyType::kBoolean, 0, 0, [](JobDraft& d) -> Field { return &d.no_python; },
     "Execute the command as it is even when its name ends in .py."},
    {"", "nodes", KeyType::kNodes, 1, kMostNodes,
     [](JobDraft& d) -> Field { return &d.config.nodes; },
     "How many nodes the job has: N, or \"MIN:MAX\" to start, and go on after a loss, with as few "
     "as MIN. More than one needs rendezvous.endpoint."},
    {"", "nproc_per_node", KeyType::kProcesses, 1, kMostProcesses,
     [](JobDraft& d) -> Field { return &d.nproc_per_node; },
     "Workers on this node: a number; gpu, one for each visible GPU; cpu, one for each CPU this "
     "process may use; auto, gpu where there is one, else cpu."},
    {"", "role", KeyType::kName, 0, 0, [](JobDraft& d) -> Field { return &d.config.role; },
     "Name of the workers' role: the prefix of their lines on the terminal, and ROLE_NAME."},
    {"", "local_addr", KeyType::kAddress, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.local_addr; },
     "Address or host name at which the other nodes reach this one. Empty: the address from which "
     "this node reaches the rendezvous."},
    {"", "log_dir", KeyType::kPath, 0, 0, [](JobDraft& d) -> Field { return &d.config.log_dir; },
     "Folder for the workers' output. Relative to the current directory."},
    {"", "checkpoint_dir", KeyType::kPath, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.checkpoint_dir; },
     "Folder for checkpoints, given to the workers as DDPRUN_CHECKPOINT_DIR. Relative to the "
     "current directory. Empty: the workers are given none."},
    {"", "report", KeyType::kPath, 0, 0, [](JobDraft& d) -> Field { return &d.config.report; },
     "File for the report of the job's end, as JSON. Relative to the current directory. Empty: "
     "none is written."},
    {"", "stop_grace", KeyType::kDuration, 0, kYear,
     [](JobDraft& d) -> Field { return &d.config.stop_grace; },
     "How long a worker has to end after SIGTERM before SIGKILL; 0 is at once."},
    {"rendezvous", "endpoint", KeyType::kEndpoint, 1, 65535,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.endpoint; },
     "host:port of a running `ddprun rendezvous`; 29400 where the port is left out; an IPv6 "
     "address in brackets. Empty: standalone, this node alone."},
    {"rendezvous", "id", KeyType::kName, 0, 0,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.id; },
     "Names the job, equally on every node; one rendezvous serves many jobs. `none`: a standalone "
     "job gets a name of its own."},
    {"rendezvous", "join_timeout", KeyType::kDuration, 1, kYear,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.join_timeout; },
     "How long the first node waits for enough others."},
    {"rendezvous", "last_call", KeyType::kDuration, 0, kYear,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.last_call; },
     "How long the job waits for further nodes, up to MAX, once MIN have joined."},
    {"rendezvous", "connect_timeout", KeyType::kDuration, 1, kYear,
     [](JobDraft& d) -> Field { return &d.config.rendezvous.connect_timeout; },
     "How long to try until the rendezvous answers for the first time."},
    {"restart", "max_restarts", KeyType::kInteger, 0, kMostRestarts,
     [](JobDraft& d) -> Field { return &d.config.restart.max_restarts; },
     "How many times the whole job may start its workers again after one of them failed."},
    {"", "env", KeyType::kEnvironment, 0, 0, [](JobDraft& d) -> Field { return &d.config.env; },
     "Variables for the workers, over the environment that ddprun itself has."},
};

constexpr JobSection kSections[] = {
    {"rendezvous", "How the nodes of a job find each other."},
    {"restart", "What happens when a worker fails."},
};

std::string Range(const JobKey& key) { return absl::StrCat("from ", key.min, " to ", key.max); }

bool InRange(const JobKey& key, std::int64_t value) { return value >= key.min && value <= key.max; }

// Stores `value` in the member of the draft, which has the type T.
template <typename T>
absl::Status Store(const JobKey& key, JobDraft* draft, T value) {
  *std::get<T*>(key.field(*draft)) = std::move(value);
  return absl::OkStatus();
}

absl::Status SetCommand(const JobKey& key, absl::string_view text, JobDraft* draft) {
  auto words = SplitCommand(text);
  if (!words.has_value() || words->empty() || words->front().empty()) {
    return UnexpectedValue(key, Quoted(text));
  }
  return Store(key, draft, *std::move(words));
}

absl::Status SetEndpoint(const JobKey& key, absl::string_view text, JobDraft* draft) {
  if (text.empty()) return Store(key, draft, std::string());
  const auto endpoint = ParseEndpoint(text, static_cast<int>(key.min), kDefaultPort);
  if (!endpoint.has_value()) return UnexpectedValue(key, Quoted(text));
  return Store(key, draft, FormatEndpoint(*endpoint));
}

}  // namespace

std::string JobKey::Path() const {
  return section.empty() ? std::string(name) : absl::StrCat(section, ".", name);
}

absl::Span<const JobKey> JobKeys() { return kKeys; }

absl::Span<const JobSection> JobSections() { return kSections; }

const JobKey* FindJobKey(absl::string_view path) {
  for (const JobKey& key : kKeys) {
    if (key.Path() == path) return &key;
  }
  return nullptr;
}

std::string Expected(const JobKey& key) {
  switch (key.type) {
    case KeyType::kBoolean:
      return "true or false";
    case KeyType::kInteger:
      return absl::StrCat("a whole number ", Range(key));
    case KeyType::kName:
      return "1 to 128 letters, digits and _.:@+=-, with a letter, digit or _ first";
    case KeyType::kAddress:
      return "a host name or an IP address";
    case KeyType::kPath:
      return "a path";
    case KeyType::kDuration:
      return absl::StrCat("a duration with its unit, such as 500ms, 10s, 5min or 2h, from ",
                          FormatDuration(milliseconds(key.min)), " to ",
                          FormatDuration(milliseconds(key.max)));
    case KeyType::kEndpoint:
      return absl::StrCat("HOST:PORT, the port ", Range(key), ", such as node1:29400");
    case KeyType::kNodes:
      return absl::StrCat("a number of nodes N, or MIN:MAX with MIN not above MAX, ", Range(key));
    case KeyType::kProcesses:
      return absl::StrCat("a number of workers ", Range(key), ", or auto, gpu or cpu");
    case KeyType::kCommand:
      return "a program and its arguments: a list of strings, or one string with closed quotes";
    case KeyType::kEnvironment:
      return "a map of variable names and values";
  }
  return "";
}

absl::Status UnexpectedValue(const JobKey& key, absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", Expected(key), " (found ", found, ")"));
}

absl::Status SetFromText(const JobKey& key, absl::string_view text, JobDraft* draft) {
  // The kernel would end the text at a NUL without a word.
  if (absl::StrContains(text, '\0')) return UnexpectedValue(key, Quoted(text));
  switch (key.type) {
    case KeyType::kBoolean:
      if (const auto value = ParseSwitch(text)) return Store(key, draft, *value);
      break;
    case KeyType::kInteger:
      if (const auto value = ParseWholeNumber(text); value && InRange(key, *value)) {
        return Store(key, draft, static_cast<int>(*value));
      }
      break;
    case KeyType::kName:
      if (IsName(text)) return Store(key, draft, std::string(text));
      break;
    case KeyType::kAddress:
      if (text.empty() || IsAddress(text)) return Store(key, draft, std::string(text));
      break;
    case KeyType::kPath:
      return Store(key, draft, std::string(text));
    case KeyType::kDuration:
      if (const auto value = ParseDuration(text); value && InRange(key, value->count())) {
        return Store(key, draft, *value);
      }
      break;
    case KeyType::kEndpoint:
      return SetEndpoint(key, text, draft);
    case KeyType::kNodes:
      if (const auto value = ParseNodes(text);
          value && InRange(key, value->min) && InRange(key, value->max)) {
        return Store(key, draft, *value);
      }
      break;
    case KeyType::kProcesses: {
      const auto value = ParseWholeNumber(text);
      const bool word = text == "auto" || text == "gpu" || text == "cpu";
      if (word || (value && InRange(key, *value))) return Store(key, draft, std::string(text));
      break;
    }
    case KeyType::kCommand:
      return SetCommand(key, text, draft);
    case KeyType::kEnvironment:
      break;
  }
  return UnexpectedValue(key, Quoted(text));
}

std::string FormatValue(const JobKey& key, const JobDraft& draft) {
  JobDraft copy = draft;  // field() gives out pointers that may be written through
  const Field field = key.field(copy);
  if (const auto* value = std::get_if<bool*>(&field)) return **value ? "true" : "false";
  if (const auto* value = std::get_if<int*>(&field)) return absl::StrCat(**value);
  if (const auto* value = std::get_if<std::string*>(&field)) return **value;
  if (const auto* value = std::get_if<milliseconds*>(&field)) return FormatDuration(**value);
  if (const auto* value = std::get_if<NodesConfig*>(&field)) return FormatNodes(**value);
  return "";
}

std::string WhyVariableIsRefused(absl::string_view name) {
  // OMP_NUM_THREADS and TORCH_NCCL_ASYNC_ERROR_HANDLING are missing here on purpose: a job may set
  // them, and ddprun then leaves them alone.
  static constexpr const char* kPerWorker[] = {
      env::kRank,          env::kLocalRank,      env::kGroupRank,      env::kRoleRank,
      env::kWorldSize,     env::kLocalWorldSize, env::kGroupWorldSize, env::kRoleWorldSize,
      env::kMasterAddr,    env::kMasterPort,     env::kRestartCount,   env::kMaxRestarts,
      env::kUseAgentStore, env::kErrorFile,      env::kGeneration,     env::kRunDir,
      env::kSnapshotDir,   env::kControlSocket};
  struct OwnKey {
    const char* name;
    absl::string_view key;
  };
  static constexpr OwnKey kOwnKeys[] = {{env::kRoleName, "role"},
                                        {env::kRunId, "rendezvous.id"},
                                        {env::kCheckpointDir, "checkpoint_dir"}};
  for (const char* const variable : kPerWorker) {
    if (name == variable) return "ddprun sets it for each worker; leave it out";
  }
  for (const OwnKey& own : kOwnKeys) {
    if (name == own.name) return absl::StrCat("ddprun sets it; use the key ", own.key);
  }
  return "";
}

}  // namespace ddprun
