#include "tests/support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

// Blocks until `fd` is readable; false at the deadline.
bool PollUntil(int fd, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd poll_fd{fd, POLLIN, 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) abort();
  }
}

}  // namespace

const std::string& TestStateHome() {
  static const TempDir folder;
  return folder.path();
}

std::vector<pid_t> ProcessesWith(const std::map<std::string, std::string>& variables) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = '\0' + ReadFile(entry.path() / "environ") + '\0';
    const bool all = std::all_of(variables.begin(), variables.end(), [&](const auto& variable) {
      const std::string entry = '\0' + variable.first + "=" + variable.second + '\0';
      return environment.find(entry) != std::string::npos;
    });
    if (all && !variables.empty()) found.push_back(std::stoi(name));
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool WaitForChange(const std::string& folder, const std::function<bool()>& done,
                   std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  std::filesystem::create_directories(folder);
  if (inotify_add_watch(watch, folder.c_str(), IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_DELETE) <
      0) {
    abort();
  }
  bool result = done();
  while (!result && PollUntil(watch, deadline)) {
    char events[4096];
    while (read(watch, events, sizeof events) > 0) continue;
    result = done();
  }
  close(watch);
  return result;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> ReadLines(const std::string& path) {
  std::istringstream text(ReadFile(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

Program::Program(std::vector<std::string> argv, std::map<std::string, std::string> environment,
                 std::string working_directory) {
  environment.emplace("DDPRUN_STATE_HOME", TestStateHome());
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    environment.emplace(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
  std::vector<char*> envp;
  for (std::string& entry : entries) envp.push_back(entry.data());
  envp.push_back(nullptr);
  std::vector<char*> args;
  for (std::string& arg : argv) args.push_back(arg.data());
  args.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (folder_ / "out").c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_addopen(&actions, 2, (folder_ / "err").c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (!working_directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, working_directory.c_str());
  }
  if (posix_spawnp(&pid_, args[0], &actions, nullptr, args.data(), envp.data()) != 0) abort();
  posix_spawn_file_actions_destroy(&actions);
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
}

Program::~Program() {
  if (!status_) {
    Signal(SIGKILL);
    Wait();
  }
  close(pidfd_);
}

void Program::Signal(int signo) const {
  if (!status_) kill(pid_, signo);
}

std::optional<ExitStatus> Program::Wait(std::chrono::milliseconds limit) {
  if (status_) return status_;
  const bool in_time = PollUntil(pidfd_, Clock::now() + limit);
  if (!in_time) kill(pid_, SIGKILL);
  int raw = 0;
  waitpid(pid_, &raw, 0);
  status_ = WIFSIGNALED(raw) ? ExitStatus{0, WTERMSIG(raw), static_cast<bool>(WCOREDUMP(raw))}
                             : ExitStatus{WEXITSTATUS(raw), 0, false};
  if (!in_time) return std::nullopt;
  return status_;
}

int Program::ExitCode(std::chrono::milliseconds limit) {
  const auto status = Wait(limit);
  return status ? status->ShellCode() : -1;
}

bool Program::WaitForOut(const std::string& text, std::chrono::milliseconds limit) const {
  return WaitForChange(
      folder_.path(), [&] { return out().find(text) != std::string::npos; }, limit);
}

bool Program::WaitForErr(const std::string& text, std::chrono::milliseconds limit) const {
  return WaitForChange(
      folder_.path(), [&] { return err().find(text) != std::string::npos; }, limit);
}

}  // namespace ddprun
