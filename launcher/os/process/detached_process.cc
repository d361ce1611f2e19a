#include "launcher/os/process/detached_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
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

}  // namespace

DetachedProcess::~DetachedProcess() { running(); }

void DetachedProcess::StartSelf(const std::vector<std::string>& arguments,
                                const std::string& log_file,
                                std::function<void(const absl::Status&)> failed) {
  starting_ = true;
  starter_.Run([arguments, log_file] { return SpawnSelf(arguments, log_file); },
               [this, failed = std::move(failed)](const absl::StatusOr<pid_t>& pid) {
                 starting_ = false;
                 if (!pid.ok()) return failed(pid.status());
                 pid_ = *pid;
                 ExcludeChild(pid_);  // so that ending the workers' processes spares it
               });
}

bool DetachedProcess::running() {
  if (starting_) return true;
  if (pid_ < 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  IncludeChild(pid_);
  pid_ = -1;
  return false;
}

}  // namespace ddprun
