// Programs under test: started, watched and ended by a test, each with a deadline.
//
// Every program has a mark in its environment that no other test has. Its descendants inherit the
// mark, so a test can find a job's workers, and can show that no process is left.
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
// it returns true. Returns false if it was not true within `limit`.
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
  // Blocks until the program has ended. If that takes too long, kills it and returns nullopt.
  std::optional<ExitStatus> Wait(std::chrono::milliseconds limit = kHang);
  // Wait(), as the exit code that a shell has in $?; −1 when it hangs.
  int ExitCode(std::chrono::milliseconds limit = kHang);

  // The output so far.
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
