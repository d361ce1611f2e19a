#include "launcher/stacks/unwind_helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "launcher/os/file_util.h"
#include "launcher/os/process/close_descriptors.h"
#include "launcher/sanitizer.h"
#include "launcher/stacks/helper_answer.h"
#include "launcher/stacks/unwinder.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::stacks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kHelperName[] = "ddprun-unwind-helper";
constexpr char kOwnProgram[] = "/proc/self/exe";
// A training program with CUDA maps several GiB of images, which count as address space.
constexpr rlim_t kMemoryBytes = rlim_t{16} << 30;
constexpr rlim_t kCpuSeconds = 10;
constexpr std::chrono::milliseconds kAfterKill{200};
constexpr std::chrono::milliseconds kSlice{20};

// ---- in the helper ----

void Limit() {
  const auto set = [](__rlimit_resource_t what, rlim_t most) {
    rlimit limit;
    if (::getrlimit(what, &limit) != 0) return;
    limit.rlim_cur = std::min(limit.rlim_max, most);
    ::setrlimit(what, &limit);
  };
  // A sanitizer reserves more than any limit.
  if (!kUnderSanitizer) set(RLIMIT_AS, kMemoryBytes);
  set(RLIMIT_CPU, kCpuSeconds);
  set(RLIMIT_CORE, 0);
}

bool WriteAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

int RunHelper() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::prctl(PR_SET_NAME, "ddprun-unwind", 0, 0, 0);
  CloseDescriptorsBut({});
  Limit();
  struct stat info;
  if (::fstat(STDIN_FILENO, &info) != 0 || info.st_size <= 0) return 1;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* const bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, STDIN_FILENO, 0);
  if (bytes == MAP_FAILED) return 1;
  const auto copies = ParseCopies({static_cast<const char*>(bytes), size});
  ::munmap(bytes, size);
  if (!copies.has_value()) return 1;
  AnswerWriter answer;
  bool written = true;
  Unwind(*copies, [&](const UnwoundThread& thread) {
    answer.Add(thread);
    // Write each thread at once: if this process is killed, the finished threads are kept.
    written = written && WriteAll(answer.Take());
  });
  answer.End();
  return written && WriteAll(answer.Take()) ? 0 : 1;
}

// ---- in ddprun ----

absl::StatusOr<pid_t> Start(int copies, int answer) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, copies, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, answer, STDOUT_FILENO);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  char name[sizeof(kHelperName)];
  std::memcpy(name, kHelperName, sizeof(name));
  char* const argv[] = {name, nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, kOwnProgram, &files, &attributes, argv, environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return absl::ErrnoToStatus(error, "cannot start the unwind helper");
  return pid;
}

// True: it has ended. `status`: from waitpid.
bool HasEnded(pid_t pid, std::chrono::milliseconds within, int* status) {
  const auto until = Clock::now() + within;
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  while (true) {
    const pid_t ended = ::waitpid(pid, status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{handle.get(), POLLIN, 0};
    // Without a pidfd (an old kernel) this polls.
    ::poll(&wait, handle.valid() ? 1 : 0,
           static_cast<int>((handle.valid() ? left : std::min(left, kSlice)).count()));
  }
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("was ended by signal ", WTERMSIG(status));
  return absl::StrCat("ended with ", WEXITSTATUS(status));
}

}  // namespace

std::optional<int> RunIfUnwindHelper(int argc, char** argv) {
  if (argc != 1 || std::strcmp(argv[0], kHelperName) != 0) return std::nullopt;
  return RunHelper();
}

Unwound UnwindInHelper(const std::vector<CopiedProcess>& processes, const HelperLimits& limits) {
  Unwound failed;
  const absl::StatusOr<UniqueFd> copies = MemoryFile(FormatCopies(processes));
  const UniqueFd answer(::memfd_create("stacks", MFD_CLOEXEC));
  if (!copies.ok() || !answer.valid()) {
    failed.status = absl::ResourceExhaustedError("no memory for the copied stacks");
    return failed;
  }
  const absl::StatusOr<pid_t> pid = Start(copies->get(), answer.get());
  if (!pid.ok()) {
    failed.status = pid.status();
    return failed;
  }
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(*pid), limits.nice);
  int status = 0;
  const bool in_time = HasEnded(*pid, limits.time, &status);
  if (!in_time) {
    ::kill(*pid, SIGKILL);
    // In an uninterruptible wait (for example, on a file server) it does not end; then it is left
    // behind.
    HasEnded(*pid, kAfterKill, &status);
  }
  struct stat info = {};
  ::fstat(answer.get(), &info);
  std::string bytes(
      std::min<std::size_t>(static_cast<std::size_t>(info.st_size), limits.answer_bytes), '\0');
  const ssize_t size = ::pread(answer.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  Unwound unwound = ParseAnswer(bytes);
  if (!in_time) {
    unwound.status = absl::DeadlineExceededError(
        absl::StrCat("not all stacks could be read within ", limits.time.count(), " ms"));
  } else if (absl::IsDataLoss(unwound.status)) {
    unwound.status =
        absl::DataLossError(absl::StrCat(unwound.status.message(), ": it ", HowItEnded(status)));
  }
  return unwound;
}

}  // namespace ddprun::stacks
