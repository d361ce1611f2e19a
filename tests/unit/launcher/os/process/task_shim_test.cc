#include "launcher/os/process/task_shim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace task_shim_test {

struct Result {
  int exit_code = -1;    // of the shim
  std::string starts{};  // a letter for each start of the agent
};

// Runs `agent` under a shim of its own.
Result RunUnderShim(const std::function<void()>& agent) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t shim = ::fork();
  if (shim == 0) {
    ContinueUnderTaskShim();
    EXPECT_EQ(::write(ends[1], "s", 1), 1);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    agent();
    ::_exit(99);  // not reached
  }
  ::close(ends[1]);
  const UniqueFd reader(ends[0]);
  Result result;
  for (char letter; ::read(reader.get(), &letter, 1) == 1;) result.starts += letter;
  int status = 0;
  EXPECT_EQ(::waitpid(shim, &status, 0), shim);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

TEST(TaskShimTest, EndsWithTheAgentsExitCode) {
  const Result result = RunUnderShim([] { ::_exit(3); });
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.starts, "s");
}

TEST(TaskShimTest, StartsAKilledAgentThreeTimesAgain) {
  const Result result = RunUnderShim([] { ::raise(SIGKILL); });
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_EQ(result.starts, "ssss");
}

TEST(TaskShimTest, AnAgentThatCrashesAfterTheJobsEndIsNotStartedAgain) {
  const Result result = RunUnderShim([] {
    TellTaskShim(75);
    ::raise(SIGSEGV);
  });
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_EQ(result.starts, "s");
}

}  // namespace task_shim_test
}  // namespace ddprun
