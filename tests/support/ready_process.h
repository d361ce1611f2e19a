// A forked process of a test, which lives until the test ends it.
#ifndef DDPRUN_TESTS_SUPPORT_READY_PROCESS_H_
#define DDPRUN_TESTS_SUPPORT_READY_PROCESS_H_

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace ddprun {

class ReadyProcess {
 public:
  // Returns when `begin` has returned in the new process. The test fails if the process ends
  // before.
  explicit ReadyProcess(const std::function<void()>& begin) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      begin();
      (void)!::write(ends[1], "r", 1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
  }
  // Kills and reaps it.
  ~ReadyProcess() {
    Kill();
    ::waitpid(pid_, nullptr, 0);
  }
  ReadyProcess(const ReadyProcess&) = delete;
  ReadyProcess& operator=(const ReadyProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Kills it, and does not wait. It is a zombie afterwards.
  void Kill() const { ::kill(pid_, SIGKILL); }

 private:
  pid_t pid_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_READY_PROCESS_H_
