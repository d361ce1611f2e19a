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

TEST(RunsSitecustomizeTest, NeedsAProgramAndAnInterpreterThatReadsPythonPath) {
  EXPECT_TRUE(RunsSitecustomize({"python3", "-u", "train.py", "-I"}));
  EXPECT_TRUE(RunsSitecustomize({"/opt/py/bin/python3.12", "-s", "-P", "-m", "pkg", "-E"}));
  EXPECT_TRUE(
      RunsSitecustomize({"python3", "-W", "IES", "-X", "EIS", "-WIES", "-XIES", "app.zip"}));
  for (const char* const option : {"-I", "-E", "-S", "-uE", "-BS"}) {
    EXPECT_FALSE(RunsSitecustomize({"python3", "-u", option, "train.py"})) << option;
  }
  EXPECT_FALSE(RunsSitecustomize({"python3", "-"}));
  EXPECT_FALSE(RunsSitecustomize({"./train.py"}));
}

TEST(WorkerCommandTest, LocalRankIsExpandedLater) {
  EXPECT_THAT(WorkerCommand({"./a", "--gpu=${local_rank}"}, ProgramKind::kByName, "python3"),
              ElementsAre("./a", "--gpu=${local_rank}"));
}

TEST(ProgramOfTest, IsNamedByItsBaseNameAndNotByItsInterpreter) {
  const auto name = [](const std::vector<std::string>& command, ProgramKind kind) {
    return ProgramOf(WorkerCommand(command, kind, "/opt/python3"), "default").name;
  };
  EXPECT_EQ(name({"a/train.py", "--x"}, ProgramKind::kByName), "train.py");
  EXPECT_EQ(name({"./train"}, ProgramKind::kByName), "train");
  EXPECT_EQ(name({"package.train", "-m"}, ProgramKind::kModule), "package.train");
  EXPECT_EQ(name({"/a/train.txt"}, ProgramKind::kRunPath), "train.txt");
  EXPECT_EQ(name({"python3", "-c", "print(1)"}, ProgramKind::kAsIs), "-c");
  EXPECT_EQ(name({"python3"}, ProgramKind::kAsIs), "python3");
}

TEST(ProgramOfTest, IsNamedByTheScriptThatAShellRuns) {
  const auto name = [](const std::vector<std::string>& argv) { return ProgramOf(argv, "").name; };
  EXPECT_EQ(name({"bash", "jobs/a.sh", "x"}), "a.sh");
  EXPECT_EQ(name({"/bin/sh", "-eu", "b.sh"}), "b.sh");
  EXPECT_EQ(name({"bash", "-eo", "pipefail", "+x", "--norc", "--rcfile", "rc", "c.sh"}), "c.sh");
  EXPECT_EQ(name({"bash", "--", "-d.sh"}), "-d.sh");
  EXPECT_EQ(name({"bash", "-lc", "exec ./train"}), "-lc");
  EXPECT_EQ(name({"bash"}), "bash");
  EXPECT_EQ(name({"bash", "-s", "e.sh"}), "bash") << "its program comes from stdin";
  EXPECT_EQ(ProgramOf({"bash", "-x", "a.sh", "7"}, ""), ProgramOf({"./a.sh", "7"}, ""));
}

TEST(ProgramOfTest, IsNamedByWhatIsStartedAndNotByTheProgramThatStartsIt) {
  const auto name = [](const std::vector<std::string>& argv) { return ProgramOf(argv, "").name; };
  EXPECT_EQ(name({"env", "-u", "X", "A=1", "B=", "./train", "C=2"}), "train");
  EXPECT_EQ(name({"/usr/bin/numactl", "-N", "0", "--membind=0", "-m0", "-l", "./train"}), "train");
  EXPECT_EQ(name({"conda", "run", "-n", "env1", "--no-capture-output", "python3", "-u", "a.py"}),
            "a.py");
  EXPECT_EQ(name({"nice", "-n5", "taskset", "-c", "0-3", "bash", "-e", "a.sh"}), "a.sh");
  EXPECT_EQ(name({"timeout", "--", "5m", "./train"}), "train");
  EXPECT_EQ(name({"uv", "run", "--with", "torch", "python3", "a.py"}), "a.py");
  EXPECT_EQ(name({"uv", "run", "train.py"}), "train.py");
  EXPECT_EQ(name({"poetry", "run", "./train"}), "train");
  EXPECT_EQ(name({"apptainer", "exec", "--nv", "-B", "/data", "torch.sif", "python3", "-m", "a.b"}),
            "a.b");
  EXPECT_EQ(ProgramOf({"numactl", "-N", "1", "./train", "7"}, ""), ProgramOf({"train", "7"}, ""));
}

TEST(ProgramOfTest, IsNamedByTheProgramThatStartsItWhereItsOptionsAreNotKnown) {
  const auto name = [](const std::vector<std::string>& argv) { return ProgramOf(argv, "").name; };
  EXPECT_EQ(name({"numactl", "--new-option", "0", "./train"}), "numactl");
  EXPECT_EQ(name({"conda", "info"}), "conda");
  EXPECT_EQ(name({"env", "A=1"}), "env");
  EXPECT_EQ(name({"taskset", "0xf"}), "taskset");
}

TEST(ProgramOfTest, HasAHashOfEachArgumentOfTheProgram) {
  const WorkerProgram one = ProgramOf({"python3", "-u", "a.py", "--lr", "0.1"}, "worker");
  EXPECT_EQ(one, ProgramOf({"/usr/bin/python3", "/data/a.py", "--lr", "0.1"}, "worker"));
  EXPECT_EQ(one.role, "worker");
  ASSERT_EQ(one.arguments.size(), 2u);
  const WorkerProgram other = ProgramOf({"./a.py", "--lr", "0.2"}, "worker");
  EXPECT_EQ(other.arguments[0], one.arguments[0]);
  EXPECT_NE(other.arguments[1], one.arguments[1]);
  EXPECT_EQ(ProgramOf(std::vector<std::string>(1000, "a"), "").arguments.size(), 256u);
}

}  // namespace command_line_program_test
}  // namespace ddprun
