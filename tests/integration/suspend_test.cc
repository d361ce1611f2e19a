// Ctrl-Z and fg, at a real (pseudo) terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <system_error>

#include "tests/support/job.h"

namespace ddprun {
namespace suspend_test {

// Runs one foreground job as a shell with job control does, and ends with its exit code.
// Async-signal-safe.
[[noreturn]] void BeShell(char* const* argv) {
  signal(SIGTTOU, SIG_IGN);
  const pid_t job = fork();
  if (job == 0) {
    setpgid(0, 0);
    tcsetpgrp(0, getpid());
    signal(SIGTTOU, SIG_DFL);
    execv(argv[0], argv);
    _exit(127);
  }
  setpgid(job, job);
  int status = 0;
  while (waitpid(job, &status, 0) < 0) continue;
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

char StateOf(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? '-' : stat[name_end + 2];
}

class Terminal {
 public:
  explicit Terminal(std::vector<std::string> argv) {
    std::vector<char*> pointers;
    for (std::string& word : argv) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    shell_ = forkpty(&master_, nullptr, nullptr, nullptr);
    // No kill() may get the pid −1: it would signal every process.
    if (shell_ < 0) throw std::system_error(errno, std::generic_category(), "forkpty");
    if (shell_ == 0) BeShell(pointers.data());
  }
  ~Terminal() {
    kill(shell_, SIGKILL);
    if (!ended_) waitpid(shell_, nullptr, 0);
    close(master_);
  }

  void Type(char key) { ASSERT_EQ(write(master_, &key, 1), 1); }
  // Reads what the terminal shows until `done`.
  bool Until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kHang;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      pollfd readable{master_, POLLIN, 0};
      char text[4096];
      if (poll(&readable, 1, 5) == 1) {
        const ssize_t size = read(master_, text, sizeof text);
        if (size > 0) shown_.append(text, static_cast<std::size_t>(size));
      }
    }
    return true;
  }
  bool Shows(const std::string& text) {
    return Until([&] { return shown_.find(text) != std::string::npos; });
  }
  int ExitCode() {
    int status = 0;
    Until([&] { return ended_ = waitpid(shell_, &status, WNOHANG) == shell_; });
    return ended_ ? WEXITSTATUS(status) : -1;
  }
  const std::string& shown() const { return shown_; }

 private:
  int master_ = -1;
  pid_t shell_ = -1;
  bool ended_ = false;
  std::string shown_;
};

TEST(SuspendTest, CtrlZStopsAgentAndWorkersAndSigcontContinuesBoth) {
  TempDir folder;
  const std::string mark = "suspend-" + std::to_string(getpid());
  setenv("DDPRUN_TEST_MARK", mark.c_str(), 1);
  // The workers wait in a builtin of the shell. If the shell started a program with vfork, the
  // program might be stopped halfway. The shell would then be in an uninterruptible wait instead of
  // stopped.
  const std::string release = folder / "release";
  ASSERT_EQ(mkfifo(release.c_str(), 0600), 0);
  Terminal terminal({DdprunPath(), "--log-dir", folder / "logs", "--nproc-per-node", "2", "sh",
                     "-c", "echo up $RANK; read line < " + release + "; exit 0"});
  unsetenv("DDPRUN_TEST_MARK");
  ASSERT_TRUE(terminal.Shows("up 0")) << terminal.shown();
  ASSERT_TRUE(terminal.Shows("up 1")) << terminal.shown();
  std::vector<pid_t> workers;
  for (const char* rank : {"0", "1"}) {
    for (const pid_t pid : ProcessesWith({{"DDPRUN_TEST_MARK", mark}, {"RANK", rank}})) {
      if (getpgid(pid) == pid) workers.push_back(pid);
    }
  }
  ASSERT_EQ(workers.size(), 2u);
  pid_t agent = 0;
  for (const pid_t pid : ProcessesWith({{"DDPRUN_TEST_MARK", mark}})) {
    if (ReadFile("/proc/" + std::to_string(pid) + "/comm") == "ddprun\n") agent = pid;
  }
  ASSERT_GT(agent, 0);
  std::vector<pid_t> all = workers;
  all.push_back(agent);
  const auto all_are = [&](const std::string& states) {
    return std::all_of(all.begin(), all.end(),
                       [&](pid_t pid) { return states.find(StateOf(pid)) != std::string::npos; });
  };

  for (int round = 0; round < 3; ++round) {
    terminal.Type('\x1a');
    EXPECT_TRUE(terminal.Until([&] { return all_are("T"); })) << terminal.shown();
    kill(-agent, SIGCONT);  // as `fg` does
    EXPECT_TRUE(terminal.Until([&] { return all_are("SRD"); })) << terminal.shown();
  }

  terminal.Type('\x1a');
  EXPECT_TRUE(terminal.Until([&] { return all_are("T"); }));
  kill(-agent, SIGCONT);
  std::fstream lines(release, std::ios::in | std::ios::out);
  lines << "one\nfor each\n" << std::flush;
  EXPECT_EQ(terminal.ExitCode(), 0) << terminal.shown();
}

TEST(SuspendTest, CtrlCAfterCtrlZEndsTheJob) {
  TempDir folder;
  const std::string mark = "suspend-end-" + std::to_string(getpid());
  setenv("DDPRUN_TEST_MARK", mark.c_str(), 1);
  Terminal terminal(
      {DdprunPath(), "--log-dir", folder / "logs", "sh", "-c", "echo up; exec sleep 1000"});
  unsetenv("DDPRUN_TEST_MARK");
  ASSERT_TRUE(terminal.Shows("up")) << terminal.shown();
  pid_t agent = 0;
  for (const pid_t pid : ProcessesWith({{"DDPRUN_TEST_MARK", mark}})) {
    if (ReadFile("/proc/" + std::to_string(pid) + "/comm") == "ddprun\n") agent = pid;
  }
  terminal.Type('\x1a');
  ASSERT_TRUE(terminal.Until([&] { return StateOf(agent) == 'T'; }));
  kill(-agent, SIGCONT);
  terminal.Type('\x03');
  EXPECT_EQ(terminal.ExitCode(), 130) << terminal.shown();
  EXPECT_THAT(ProcessesWith({{"DDPRUN_TEST_MARK", mark}}), testing::IsEmpty());
}

}  // namespace suspend_test
}  // namespace ddprun
