#include "launcher/node/node_facts.h"

#include <elf.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "launcher/config/command_line_program.h"
#include "launcher/config/values.h"
#include "launcher/connection/connection.h"
#include "launcher/connection/credentials.h"
#include "launcher/os/local_address.h"
#include "launcher/os/process/program_path.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/operator_client.h"
#include "worker/contract/memory_room.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

// Importing torch from a network disk with cold caches.
constexpr std::chrono::seconds kProgramLimit{60};
constexpr std::chrono::seconds kAnswerLimit{1};  // for a rendezvous on this host
constexpr std::size_t kMaxOutput = 1 << 20;

// The program's stdout; empty: it failed or took too long.
std::string OutputOf(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv.front(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return "";
  to.reset();
  std::string output;
  const auto until = steady_clock::now() + kProgramLimit;
  while (output.size() < kMaxOutput) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now()).count();
    pollfd ready{from.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) <= 0) break;
    char text[4096];
    const ssize_t size = ::read(from.get(), text, sizeof text);
    if (size <= 0) break;
    output.append(text, static_cast<std::size_t>(size));
  }
  // A well-behaved program ends right after it has closed its output.
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now()).count();
  pollfd ended{process.get(), POLLIN, 0};
  const bool too_much = output.size() >= kMaxOutput || left <= 0;
  if (too_much || ::poll(&ended, 1, static_cast<int>(left)) <= 0) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? output : "";
}

// The path in the ELF file's PT_INTERP; empty: it has none.
std::string LoaderOf(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return "";
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof part));
    if (!file.read(reinterpret_cast<char*>(&part), sizeof part)) return "";
    if (part.p_type != PT_INTERP || part.p_filesz > 4096) continue;
    std::string path(part.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    if (!file.read(path.data(), static_cast<std::streamsize>(path.size()))) return "";
    return path.c_str();  // up to its NUL
  }
  return "";
}

// "	libc10.so => /usr/lib/libc10.so (0x7f...)" or "	libx.so.1 => not found"
void TakeLoaderLine(const std::string& line, NodeFacts* facts) {
  const std::vector<std::string> sides = absl::StrSplit(line, absl::MaxSplits(" => ", 1));
  if (sides.size() != 2) return;
  const std::string name(absl::StripAsciiWhitespace(sides[0]));
  if (absl::StartsWith(sides[1], "not found")) {
    facts->program.missing.push_back(name);
    return;
  }
  const bool of_interest =
      absl::StartsWith(name, "libtorch_c") || absl::StartsWith(name, "libnccl");
  if (!of_interest) return;
  std::error_code error;
  const fs::path file = fs::canonical(sides[1].substr(0, sides[1].find(" (")), error);
  facts->program.libraries.push_back(error ? name : file.filename().string());
}

// Looks at the program of `python3 [options] SCRIPT`.
void LookAtScript(const JobConfig& config, NodeFacts* facts) {
  const auto place = FindPythonProgram(config.command);
  if (!place || absl::StartsWith(config.command[*place], "-")) return;
  const std::string& script = config.command[*place];
  if (::access(script.c_str(), R_OK) == 0) return;
  facts->program.executable =
      absl::UnavailableError(absl::StrCat(script, ": ", std::strerror(errno)));
}

void LookAtCommand(const JobConfig& config, NodeFacts* facts) {
  if (config.command.empty()) return;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const auto program = FindProgram(config.command.front(), environment);
  facts->program.executable = program.status();
  if (!program.ok()) return;
  if (::faccessat(AT_FDCWD, program->c_str(), X_OK, AT_EACCESS) != 0) {
    facts->program.executable = ExplainExecFailure(*program, errno);
    return;
  }
  if (IsPythonInterpreter(config.command.front())) {
    LookAtScript(config, facts);
    // One line each: "torch 2.6.0", "NCCL 2.22.3".
    const std::string versions =
        OutputOf({*program, "-c",
                  "import torch\nprint('torch', torch.__version__)\n"
                  "if torch.cuda.is_available():\n"
                  "  print('NCCL', '.'.join(map(str, torch.cuda.nccl.version())))\n"});
    for (const absl::string_view line : absl::StrSplit(versions, '\n', absl::SkipEmpty())) {
      facts->program.libraries.emplace_back(line);
    }
    if (versions.empty()) {
      facts->program.warning = absl::StrCat(*program, " cannot import torch: ", *program,
                                            " -c 'import torch' tells why");
    }
    return;
  }
  for (const std::string& line : LoaderLines(*program)) TakeLoaderLine(line, facts);
}

bool IsTaken(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;  // remains of closed connections do not count
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 &&
         errno == EADDRINUSE;
}

bool IsRendezvous(const std::string& endpoint,
                  const std::shared_ptr<const auth::ClientCredentials>& credentials) {
  OperatorClient client({{{endpoint, credentials}}, kAnswerLimit});
  const absl::Status status = client.Status("").status();
  return !absl::IsUnavailable(status) && !absl::IsUnimplemented(status);
}

// The address of `host` for other nodes. For a check without a job: any job of several nodes needs
// it.
absl::StatusOr<std::string> AddressForOthers(const std::string& host) {
  const auto own = OwnAddress(host);
  if (!own.ok()) return own.status();
  if (!own->has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        host, " resolves to an address that this host does not have: check /etc/hosts and DNS"));
  }
  if (!IsLoopback(**own)) return **own;
  if (auto outside = OutsideAddress()) return *std::move(outside);
  return absl::FailedPreconditionError(
      absl::StrCat(host, " has only ", **own, ", which other nodes cannot reach"));
}

void LookAtPorts(const JobConfig& config,
                 const std::shared_ptr<const auth::ClientCredentials>& credentials,
                 NodeFacts* facts) {
  const RendezvousConfig& rendezvous = config.rendezvous;
  if (config.standalone()) return;
  for (const std::string& endpoint : SplitEndpoints(rendezvous.endpoint)) {
    if (facts->endpoint.ok()) facts->endpoint = OwnAddress(HostOf(endpoint)).status();
  }
  if (rendezvous.autostart == "false" || rendezvous.in_etcd() || !facts->endpoint.ok()) return;
  const auto own = OwnAddress(HostOf(rendezvous.endpoint));
  if (!own.ok() || !own->has_value()) return;
  for (const std::string& endpoint : PlacesOf(rendezvous)) {
    const int port = PortOf(endpoint);
    facts->ports.push_back(port);
    if (!IsTaken(port)) continue;
    if (IsRendezvous(endpoint, credentials)) {
      facts->rendezvous_port = port;
    } else {
      facts->taken_ports.push_back(port);
    }
  }
}

void LookAtLimits(NodeFacts* facts) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) facts->open_files = limit.rlim_max;
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts->locked_bytes = limit.rlim_cur;
  }
  facts->shared_memory_bytes = MemoryRoom(MemoryPlace());
}

void LookAtClock(NodeFacts* facts) {
  facts->unix_seconds = std::time(nullptr);
  timex clock{};
  const int state = ::adjtimex(&clock);  // only reads the state
  // If the call is not allowed, the state is unknown.
  facts->clock_synchronized =
      state < 0 || (state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0);
}

void LookAtGpus(const Host& host, NodeFacts* facts) {
  facts->gpus = VisibleGpusOf(host).count;
  if (const auto given = host.Environment("SLURM_GPUS_ON_NODE"); given.has_value()) {
    if (!absl::SimpleAtoi(*given, &facts->gpus_given)) facts->gpus_given = 0;
  }
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..."
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const bool version =
        word.find('.') != word.npos && word.find_first_not_of("0123456789.") == word.npos;
    if (version && facts->driver.empty()) facts->driver = std::string(word);
  }
  if (facts->driver.empty() && !line.empty()) facts->driver = "of an unknown version";
}

// If the job would make the folder, looks at the nearest existing folder above it.
void LookAtFolder(const std::string& folder, NodeFacts* facts) {
  if (folder.empty()) return;
  fs::path place = folder;
  std::error_code error;
  while (!fs::exists(place, error) && place.has_relative_path()) place = place.parent_path();
  std::string file = (place / ".ddprun-doctor-XXXXXX").string();
  const UniqueFd fd(::mkostemp(file.data(), O_CLOEXEC));
  if (!fd.valid()) {
    facts->unwritable.push_back(absl::StrCat(folder, ": ", std::strerror(errno)));
  } else {
    ::unlink(file.c_str());
  }
}

}  // namespace

std::vector<std::string> LoaderLines(const std::string& program) {
  const std::string loader = LoaderOf(program);
  if (loader.empty()) return {};
  return absl::StrSplit(OutputOf({loader, "--list", program}), '\n', absl::SkipEmpty());
}

NodeFacts LookAtNode(const JobConfig& config, const Host& host) {
  NodeFacts facts;
  facts.host = HostName();
  const bool no_job = config.standalone() && config.command.empty();
  facts.address = no_job ? AddressForOthers(facts.host) : NodeAddress(config);
  const auto credentials = LoadCredentialsOfAll(config.rendezvous.credentials,
                                                PlacesOf(config.rendezvous), config.insecure);
  facts.credentials = credentials.ok() ? credentials->front()->Check() : credentials.status();
  if (credentials.ok()) facts.credentials_warning = credentials->front()->warning();
  LookAtPorts(config, credentials.ok() ? credentials->front() : nullptr, &facts);
  LookAtClock(&facts);
  LookAtLimits(&facts);
  LookAtGpus(host, &facts);
  LookAtCommand(config, &facts);
  for (const std::string& folder : {config.log_dir, config.checkpoint_dir}) {
    LookAtFolder(folder, &facts);
  }
  return facts;
}

}  // namespace ddprun
