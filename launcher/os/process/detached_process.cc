#include "launcher/os/process/detached_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "launcher/os/check.h"
#include "launcher/os/process/child_reaper.h"

namespace ddprun {
namespace {

// The file actions and attributes of one posix_spawn.
class SpawnPlan {
 public:
  explicit SpawnPlan(const std::string& log_file) {
    Check(posix_spawn_file_actions_init(&actions_) == 0, "posix_spawn_file_actions_init");
    Check(posix_spawnattr_init(&attributes_) == 0, "posix_spawnattr_init");
    Check(posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0) == 0 &&
              posix_spawn_file_actions_addopen(&actions_, 1, log_file.c_str(),
                                               O_WRONLY | O_CREAT | O_APPEND, 0644) == 0 &&
              posix_spawn_file_actions_adddup2(&actions_, 1, 2) == 0 &&
              posix_spawn_file_actions_addclosefrom_np(&actions_, 3) == 0,
          "posix_spawn_file_actions");
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    Check(posix_spawnattr_setsigmask(&attributes_, &none) == 0 &&
              posix_spawnattr_setsigdefault(&attributes_, &all) == 0 &&
              posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                         POSIX_SPAWN_SETSIGDEF) == 0,
          "posix_spawnattr");
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Returns once the program is executed. The error names the program.
absl::StatusOr<pid_t> SpawnSelf(const std::vector<std::string>& arguments,
                                const std::string& log_file) {
  std::vector<std::string> words = {"ddprun"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const SpawnPlan plan(log_file);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, "/proc/self/exe", plan.actions(), plan.attributes(), argv.data(), environ);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot start ddprun ", arguments.front(), ": ", std::strerror(error)));
  }
  return pid;
}

// Reads at most the last 4 KiB of the file.
std::string LastLineOf(const std::string& file) {
  constexpr std::streamoff kTail = 4096;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  if (size <= 0) return "";
  in.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!absl::StripAsciiWhitespace(line).empty()) last = line;
  }
  return last;
}

}  // namespace

DetachedProcess::~DetachedProcess() {
  callbacks_ = {};
  running();
  if (pidfd_.valid()) loop_->Unwatch(pidfd_.get());
}

void DetachedProcess::StartSelf(const std::vector<std::string>& arguments,
                                const std::string& log_file, Callbacks callbacks) {
  starting_ = true;
  log_file_ = log_file;
  callbacks_ = std::move(callbacks);
  thread_.Run([arguments, log_file] { return SpawnSelf(arguments, log_file); },
              [this](const absl::StatusOr<pid_t>& pid) {
                starting_ = false;
                if (!pid.ok()) return callbacks_.failed(pid.status());
                Watch(*pid);
              });
}

void DetachedProcess::Watch(pid_t pid) {
  pid_ = pid;
  ExcludeChild(pid_);  // so that ending the workers' processes spares it
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd_.valid()) loop_->Watch(pidfd_.get(), EPOLLIN, [this](std::uint32_t) { running(); });
}

bool DetachedProcess::running() {
  if (starting_) return true;
  if (pid_ < 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  IncludeChild(pid_);
  pid_ = -1;
  if (pidfd_.valid()) loop_->Unwatch(pidfd_.get());
  pidfd_.reset();
  if (!callbacks_.ended) return false;
  ExitStatus how;
  if (WIFSIGNALED(status)) {
    how.signal = WTERMSIG(status);
  } else {
    how.code = WEXITSTATUS(status);
  }
  thread_.Run([log_file = log_file_] { return LastLineOf(log_file); },
              [ended = callbacks_.ended, how](const std::string& last) {
                ended({how, last});
              });
  return false;
}

}  // namespace ddprun
