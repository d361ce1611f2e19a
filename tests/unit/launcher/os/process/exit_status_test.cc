#include "rendezvous/core/exit_status.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace exit_status_test {

TEST(ExitStatusTest, OnlyCodeZeroWithoutASignalIsOk) {
  EXPECT_TRUE((ExitStatus{0, 0, false}.ok()));
  EXPECT_FALSE((ExitStatus{1, 0, false}.ok()));
  EXPECT_FALSE((ExitStatus{0, SIGTERM, false}.ok()));
}

TEST(ExitStatusTest, ShellCodeIsTheCodeOr128PlusTheSignal) {
  for (int code = 0; code < 256; ++code) EXPECT_EQ((ExitStatus{code, 0, false}.ShellCode()), code);
  for (int signo = 1; signo <= 64; ++signo) {
    EXPECT_EQ((ExitStatus{0, signo, false}.ShellCode()), 128 + signo);
  }
}

TEST(ExitStatusTest, DescribesItselfForAPerson) {
  EXPECT_EQ((ExitStatus{3, 0, false}.Describe()), "exit code 3");
  EXPECT_EQ((ExitStatus{0, SIGKILL, false}.Describe()), "SIGKILL");
  EXPECT_EQ((ExitStatus{0, SIGSEGV, true}.Describe()), "SIGSEGV (core dumped)");
  EXPECT_EQ((ExitStatus{0, 40, false}.Describe()), "signal 40");
}

TEST(ExitStatusTest, EveryStandardSignalHasAName) {
  for (int signo = 1; signo < 32; ++signo) {
    EXPECT_EQ(SignalName(signo).substr(0, 3), "SIG") << signo;
  }
}

}  // namespace exit_status_test
}  // namespace ddprun
