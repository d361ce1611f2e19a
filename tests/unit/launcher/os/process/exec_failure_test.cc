// What the user reads when the command is wrong. The texts are part of the interface.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "launcher/os/process/posix_process_runner.h"
#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace exec_failure_test {

using absl::StatusCode;

class ExecFailureTest : public ::testing::Test {
 protected:
  ~ExecFailureTest() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a failed child was not collected";
    EXPECT_EQ(errno, ECHILD);
  }

  void ExpectFailure(const SpawnRequest& request, StatusCode code, const std::string& message) {
    const absl::Status status = test::OutcomeOf(&runner_, request);
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(std::string(status.message()), message);
  }

  SpawnRequest Here(const std::string& program) { return {{program}, {"PATH=/bin"}, dir_.path()}; }

  const test::TempDir dir_;
  PosixProcessRunner runner_;
};

TEST_F(ExecFailureTest, MissingFile) {
  ExpectFailure(Here("./trian"), StatusCode::kNotFound, "./trian: no such file");
  ExpectFailure(Here("/dev/null/train"), StatusCode::kNotFound, "/dev/null/train: no such file");
}

TEST_F(ExecFailureTest, MissingInPath) {
  ExpectFailure(Here("trian"), StatusCode::kNotFound, "trian: command not found (PATH=/bin)");
  ExpectFailure({{"trian"}, {}, ""}, StatusCode::kNotFound,
                "trian: command not found (PATH=/bin:/usr/bin)");
}

TEST_F(ExecFailureTest, MissingInPathButHere) {
  test::WriteFile(dir_ / "train", "#!/bin/sh\n", 0755);
  ExpectFailure(Here("train"), StatusCode::kNotFound,
                "train: command not found (PATH=/bin); did you mean ./train?");
}

TEST_F(ExecFailureTest, CpusThatTheMachineLacks) {
  SpawnRequest request{{"/bin/true"}, {}, ""};
  request.cpus = {1'000'000};
  ExpectFailure(request, StatusCode::kInvalidArgument,
                "cannot prepare /bin/true: sched_setaffinity: Invalid argument");
}

TEST_F(ExecFailureTest, NotExecutable) {
  test::WriteFile(dir_ / "train", "#!/bin/sh\n", 0644);
  ExpectFailure(Here("./train"), StatusCode::kPermissionDenied,
                "./train: permission denied: not executable (chmod +x ./train)");
}

TEST_F(ExecFailureTest, NotExecutableInPath) {
  test::WriteFile(dir_ / "train", "#!/bin/sh\n", 0644);
  ExpectFailure({{"train"}, {"PATH=."}, dir_.path()}, StatusCode::kPermissionDenied,
                "./train: permission denied: not executable (chmod +x ./train)");
}

TEST_F(ExecFailureTest, Directory) {
  std::filesystem::create_directory(dir_ / "train");
  ExpectFailure(Here("./train"), StatusCode::kPermissionDenied, "./train: is a directory");
}

TEST_F(ExecFailureTest, MissingInterpreter) {
  test::WriteFile(dir_ / "train.py", "#! /usr/bin/pyhton3 -u\nprint(1)\n", 0755);
  ExpectFailure(Here("./train.py"), StatusCode::kNotFound,
                "./train.py: interpreter /usr/bin/pyhton3 not found");
}

TEST_F(ExecFailureTest, InterpreterThatCannotBeExecuted) {
  test::WriteFile(dir_ / "train.py", "#!/etc/passwd\n", 0755);
  ExpectFailure(Here("./train.py"), StatusCode::kPermissionDenied,
                "./train.py: permission denied: interpreter /etc/passwd not executable");
}

TEST_F(ExecFailureTest, WindowsLineEnds) {
  test::WriteFile(dir_ / "train.sh", "#!/bin/sh\r\necho\r\n", 0755);
  ExpectFailure(Here("./train.sh"), StatusCode::kNotFound,
                "./train.sh: interpreter /bin/sh not found: the script has Windows line ends "
                "(sed -i 's/\\r$//' ./train.sh)");
}

TEST_F(ExecFailureTest, NeitherProgramNorScript) {
  test::WriteFile(dir_ / "train", "echo no first line\n", 0755);
  ExpectFailure(Here("./train"), StatusCode::kPermissionDenied,
                "./train: cannot be executed: neither a program for this machine nor a script "
                "with a #! line");
}

TEST_F(ExecFailureTest, WorkingDirectory) {
  const std::string missing = dir_ / "missing";
  ExpectFailure({{"/bin/true"}, {}, missing}, StatusCode::kNotFound,
                "working directory " + missing + ": no such directory");
  // The error is the same if the program is relative to the folder, or found by PATH.
  ExpectFailure({{"./train"}, {}, missing}, StatusCode::kNotFound,
                "working directory " + missing + ": no such directory");
  ExpectFailure({{"train"}, {"PATH=."}, missing}, StatusCode::kNotFound,
                "working directory " + missing + ": no such directory");
  ExpectFailure({{"/bin/true"}, {}, "/dev/null"}, StatusCode::kNotFound,
                "working directory /dev/null: not a directory");
}

TEST_F(ExecFailureTest, ArgumentsTooLong) {
  SpawnRequest request{{"/bin/true"}, {}, ""};
  request.argv.emplace_back(4 << 20, 'x');
  ExpectFailure(request, StatusCode::kResourceExhausted,
                "/bin/true: the arguments and the environment together are too long");
}

TEST_F(ExecFailureTest, NothingToRunOrNotExpressible) {
  ExpectFailure({}, StatusCode::kInvalidArgument, "there is no command to run");
  ExpectFailure({{""}, {}, ""}, StatusCode::kNotFound, "the command is empty");
  ExpectFailure({{"/bin/true", std::string("a\0b", 3)}, {}, ""}, StatusCode::kInvalidArgument,
                "an argument contains a NUL byte");
}

}  // namespace exec_failure_test
}  // namespace ddprun
