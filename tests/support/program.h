// Programs under test: a test starts, watches and ends them. Each wait has a time limit.
//
// A test can put a mark into a program's environment that no other test has, as Job does (job.h).
// The program's descendants inherit the mark. So a test can find a job's workers with
// ProcessesWith(), and can show that no process is left.
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

// A generous time limit for an action of milliseconds: a test reaches it only if something is
// stuck.
inline constexpr std::chrono::seconds kHang{60};

// The folder for DDPRUN_STATE_HOME of all programs of this test program. They find each other
// there, leave nothing in /tmp, and do not collide with other programs. Removed when the test
// program ends.
const std::string& TestStateHome();

// Finds the processes that have all these variables in their environment.
std::vector<pid_t> ProcessesWith(const std::map<std::string, std::string>& variables);

// Calls `done` now and after every change in `folder` until it returns true. A change is a file
// that is made, written, deleted, or renamed into the folder. Makes the folder if it is missing.
// Returns false if `done` was not true within `limit`.
bool WaitForChange(const std::string& folder, const std::function<bool()>& done,
                   std::chrono::milliseconds limit = kHang);

std::string ReadFile(const std::string& path);
std::vector<std::string> ReadLines(const std::string& path);

class Program {
 public:
  // Starts the program at once. Its stdout and stderr go to files. Its DDPRUN_STATE_HOME is
  // TestStateHome(), unless `environment` has another one. Ends with this object at the latest, by
  // SIGKILL.
  Program(std::vector<std::string> argv, std::map<std::string, std::string> environment = {},
          std::string working_directory = "");
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signo) const;
  // Blocks until the program has ended. If that takes too long, kills it and returns nullopt.
  std::optional<ExitStatus> Wait(std::chrono::milliseconds limit = kHang);
  // Wait(), as the exit code that a shell has in $?; −1: it did not end within `limit`.
  int ExitCode(std::chrono::milliseconds limit = kHang);

  // The output so far.
  std::string out() const { return ReadFile(folder_ / "out"); }
  std::string err() const { return ReadFile(folder_ / "err"); }
  // Blocks until stdout has `text` in it. False: not within `limit`.
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
