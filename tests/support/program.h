// Programs under test: started, watched and ended by a test, each with a deadline.
//
// Every program is started with a mark in its environment that no other test has, and which its
// descendants inherit; so a test can find a job's workers, and can show that nothing is left.
#ifndef DDPRUN_TESTS_SUPPORT_PROGRAM_H_
#define DDPRUN_TESTS_SUPPORT_PROGRAM_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/exit_status.h"
#include "tests/support/temp_dir.h"

namespace ddprun {

// A generous time limit for an action of milliseconds: only a hang reaches it.
inline constexpr std::chrono::seconds kHang{60};

// The state home of all programs of this test. They find each other there, leave nothing in /tmp,
// and do not collide with other programs. Removed when the test ends.
const std::string& TestStateHome();

// Finds processes by variables of their environment. Read-only.
std::vector<pid_t> ProcessesWith(const std::map<std::string, std::string>& variables);

// Calls `done` now and after every change in `folder` (files made, written or renamed there) until
// it is true. Returns whether it was, before `limit`.
bool WaitForChange(const std::string& folder, const std::function<bool()>& done,
                   std::chrono::milliseconds limit = kHang);

std::string ReadFile(const std::string& path);
std::vector<std::string> ReadLines(const std::string& path);

class Program {
 public:
  // Starts at once; stdout and stderr go to files. Ends with the test at the latest, by SIGKILL.
  // Its DDPRUN_STATE_HOME is TestStateHome(), unless `environment` names another.
  Program(std::vector<std::string> argv, std::map<std::string, std::string> environment = {},
          std::string working_directory = "");
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signo) const;
  // Blocks until it has ended; nullopt (and the program is killed) when that takes too long.
  std::optional<ExitStatus> Wait(std::chrono::milliseconds limit = kHang);
  // Wait(), as a shell's $?; −1 when it hangs.
  int ExitCode(std::chrono::milliseconds limit = kHang);

  // What it has written so far.
  std::string out() const { return ReadFile(folder_ / "out"); }
  std::string err() const { return ReadFile(folder_ / "err"); }
  // Blocks until a line of stdout has `text` in it.
  bool WaitForOut(const std::string& text, std::chrono::milliseconds limit = kHang) const;
  bool WaitForErr(const std::string& text, std::chrono::milliseconds limit = kHang) const;

 private:
  TempDir folder_;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::optional<ExitStatus> status_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_PROGRAM_H_
