#include "launcher/config/command_line_program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ddprun {
namespace command_line_program_test {

using testing::ElementsAre;

TEST(WorkerCommandTest, PythonScriptRunsUnbufferedUnderPython) {
  EXPECT_THAT(WorkerCommand({"dir/train.py", "--lr", "1"}, ProgramKind::kByName, "python3"),
              ElementsAre("python3", "-u", "dir/train.py", "--lr", "1"));
}

TEST(WorkerCommandTest, AnyOtherProgramIsExecutedAsItIs) {
  for (const char* const program : {"./train", "python3", "py", "train.pyc", "train.PY"}) {
    EXPECT_THAT(WorkerCommand({program, "x.py"}, ProgramKind::kByName, "python3"),
                ElementsAre(program, "x.py"));
  }
}

TEST(WorkerCommandTest, ModuleRunsUnderPython) {
  EXPECT_THAT(WorkerCommand({"pkg.train", "--lr"}, ProgramKind::kModule, "/opt/py/bin/python"),
              ElementsAre("/opt/py/bin/python", "-u", "-m", "pkg.train", "--lr"));
}

TEST(WorkerCommandTest, AsIsLeavesAPythonScriptToItsFirstLine) {
  EXPECT_THAT(WorkerCommand({"./train.py"}, ProgramKind::kAsIs, "python3"),
              ElementsAre("./train.py"));
}

TEST(FindPythonProgramTest, FindsScriptModuleOrCodeBehindTheInterpretersOptions) {
  EXPECT_EQ(FindPythonProgram({"python3", "train.py", "-m"}), 1U);
  EXPECT_EQ(FindPythonProgram({"python3", "-u", "-m", "pkg"}), 2U);
  EXPECT_EQ(FindPythonProgram({"python3", "-uB", "-W", "error", "-Xdev", "-c", "x"}), 5U);
  EXPECT_EQ(FindPythonProgram({"python3", "-X", "dev", "dir"}), 3U);
  EXPECT_EQ(FindPythonProgram({"python3"}), std::nullopt);
  EXPECT_EQ(FindPythonProgram({"python3", "-"}), std::nullopt) << "reads its program from stdin";
  EXPECT_EQ(FindPythonProgram({"python3", "-i", "a.py"}), std::nullopt);
  EXPECT_EQ(FindPythonProgram({"python3", "--version"}), std::nullopt);
}

TEST(IsPythonInterpreterTest, GoesByTheName) {
  for (const char* const name : {"python", "python3", "/usr/bin/python3.11", "./pypy3"}) {
    EXPECT_TRUE(IsPythonInterpreter(name)) << name;
  }
  for (const char* const name : {"python-config", "train.py", "./python/train", "pythonw.sh", ""}) {
    EXPECT_FALSE(IsPythonInterpreter(name)) << name;
  }
}

TEST(WorkerCommandTest, LocalRankIsExpandedLater) {
  EXPECT_THAT(WorkerCommand({"./a", "--gpu=${local_rank}"}, ProgramKind::kByName, "python3"),
              ElementsAre("./a", "--gpu=${local_rank}"));
}

}  // namespace command_line_program_test
}  // namespace ddprun
