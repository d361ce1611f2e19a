// Which stacks of a job ddprun shows if it lacks a permission (docs/stacks.md).
// tests/programs/without_ptrace.cc takes the permission away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/capabilities.h"
#include "tests/support/job.h"

namespace ddprun {
namespace stack_permissions_test {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr char kScript[] = R"(
import os, pathlib, sys, time
def read_the_next_shard():
    pathlib.Path(sys.argv[1], 'waits' + os.environ.get('RANK', '')).touch()
    while True: time.sleep(1000)
read_the_next_shard()
)";

// Three ranks. At step 5 rank 1 sleeps in read_the_next_shard, and the others wait for it.
constexpr char kHangs[] = R"(
import os, pathlib, sys, time
import ddprun
folder, rank = pathlib.Path(sys.argv[1]), int(os.environ['RANK'])
generation = os.environ['DDPRUN_GENERATION']
def mark(step, of): return folder / f'{generation}.{step}.{of}'
def read_the_next_shard():
    while True: time.sleep(1)
def wait_for_the_peers(step):
    mark(step, rank).touch()
    while not all(mark(step, of).exists() for of in range(3)): time.sleep(0.005)
for step in range(10):
    if (rank, step, generation) == (1, 5, '0'): read_the_next_shard()
    wait_for_the_peers(step)
    ddprun.step(step)
)";

// A condition is an argument of without_ptrace.
class StackPermissionsTest : public testing::Test {
 protected:
  StackPermissionsTest() {
    std::ofstream(folder_ / "script.py") << kScript;
    std::ofstream(folder_ / "hangs.py") << kHangs;
    EXPECT_EQ(::mkdir((folder_ / "home").c_str(), 0700), 0);
    environment_ = {{"DDPRUN_STATE_HOME", folder_ / "home"}, {"TMPDIR", folder_.path()}};
  }

  // Why this machine cannot make the condition; "" if it can.
  static std::string Missing(const std::string& condition) {
    Program made({WITHOUT_PTRACE, condition, DdprunPath(), "--version"});
    return made.ExitCode() == 0 ? "" : condition + " (" + made.err() + made.out() + ")";
  }

  std::unique_ptr<Program> Start(const std::string& condition, std::vector<std::string> arguments) {
    std::vector<std::string> argv = {WITHOUT_PTRACE, condition, DdprunPath()};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return std::make_unique<Program>(argv, environment_);
  }

  // A job of one worker and its rendezvous, both under the condition. They end with the test.
  void StartJob(const std::string& condition, const std::vector<std::string>& command) {
    daemon_ = Start(condition,
                    {"rendezvous", "--listen", "127.0.0.1:0", "--port-file", folder_ / "port"});
    ASSERT_TRUE(WaitForChange(folder_.path(), [&] { return !ReadFile(folder_ / "port").empty(); }))
        << daemon_->err();
    endpoint_ = "127.0.0.1:" + std::to_string(std::stoi(ReadFile(folder_ / "port")));
    std::vector<std::string> arguments = {"--rdzv-endpoint", endpoint_,        "--rdzv-id", "job",
                                          "--log-dir",       folder_ / "logs", "--"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    node_ = Start(condition, arguments);
  }

  struct Shown {
    int code;
    std::string out;
  };
  // Asks for `ddprun stacks` of the job until the output contains `expected`.
  Shown StacksOfJob(const std::string& condition, const std::string& expected) {
    Shown shown{};
    const auto until = std::chrono::steady_clock::now() + kHang;
    do {
      const auto asked =
          Start(condition, {"stacks", "job", "--full", "--rdzv-endpoint", endpoint_});
      shown = {asked->ExitCode(), asked->out() + asked->err()};
    } while (shown.out.find(expected) == std::string::npos &&
             std::chrono::steady_clock::now() < until);
    EXPECT_THAT(shown.out, HasSubstr(expected)) << node_->err();
    return shown;
  }

  TempDir folder_;
  std::map<std::string, std::string> environment_;
  std::unique_ptr<Program> daemon_;
  std::unique_ptr<Program> node_;
  std::string endpoint_;
};

constexpr char kNative[] = "→ Inner stack_probe.cc:";
constexpr char kPython[] = "read_the_next_shard script.py:5";
constexpr char kFiltered[] =
    "rank 0: ddprun may not trace it: ddprun's seccomp filter may forbid tracing "
    "(containers: allow ptrace and process_vm_readv in the seccomp profile)";

// ---- the stacks of ddprun's own workers: no permission is needed ----

class OwnWorkersTest : public StackPermissionsTest,
                       public testing::WithParamInterface<const char*> {};

TEST_P(OwnWorkersTest, AreShownAsToRoot) {
  const std::string condition = GetParam();
  DDPRUN_NEEDS(Missing(condition));
  if (condition == "nobody") {
    for (const std::string& path : {folder_.path(), std::string(folder_ / "home")}) {
      ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    }
  }
  StartJob(condition, {STACK_PROBE, "chain"});
  const Shown native = StacksOfJob(condition, kNative);
  EXPECT_EQ(native.code, 0);
  EXPECT_THAT(native.out, Not(HasSubstr("may not trace")));
}

INSTANTIATE_TEST_SUITE_P(Without, OwnWorkersTest, testing::Values("nobody", "user_namespace"));

// ---- a process of somebody else ----

TEST_F(StackPermissionsTest, OfAnotherUsersProcessTheStateIsShownAndWhatIsMissing) {
  DDPRUN_NEEDS(Missing("nobody"));
  Program other({STACK_PROBE, "chain"});
  ASSERT_TRUE(other.WaitForOut("ready"));
  const auto stacks = Start("nobody", {"stacks", "--pid", std::to_string(other.pid())});
  EXPECT_EQ(stacks->ExitCode(), 77);
  EXPECT_THAT(stacks->out(),
              AllOf(ContainsRegex("may not trace it: it runs as uid 0, ddprun as uid 65534 without "
                                  "CAP_SYS_PTRACE; run ddprun as the same uid or as root\n"),
                    HasSubstr("main thread: S (waiting)"), Not(HasSubstr("Inner"))));
}

TEST_F(StackPermissionsTest, OfAProcessOutsideOfTheUserNamespaceTheStateIsShown) {
  DDPRUN_NEEDS(Missing("user_namespace"));
  Program other({STACK_PROBE, "chain"});
  ASSERT_TRUE(other.WaitForOut("ready"));
  const auto stacks = Start("user_namespace", {"stacks", "--pid", std::to_string(other.pid())});
  EXPECT_EQ(stacks->ExitCode(), 77);
  EXPECT_THAT(stacks->out(), AllOf(HasSubstr("may not trace it: "), HasSubstr("CAP_SYS_PTRACE"),
                                   HasSubstr("main thread: S (waiting)"), Not(HasSubstr("Inner"))));
}

// ---- Yama, which this project's machines do not have: a test of the parents instead ----

constexpr char kAncestors[] = R"(
import os
pid = os.getpid()
while pid > 1:
    pid = int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
    print('ancestor', pid, flush=True)
)";

// With ptrace_scope 1, a process may trace its descendants. So the agent may trace its workers,
// whatever starts them.
TEST_F(StackPermissionsTest, TheAgentIsAnAncestorOfItsWorkers) {
  std::ofstream(folder_ / "ancestors.py") << kAncestors;
  environment_["PYTHON_EXEC"] = "/usr/bin/python3";
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--warm", "--preload", "json"}}) {
    std::vector<std::string> argv = {DdprunPath(), "--log-dir", folder_ / "logs"};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.insert(argv.end(), {"--", folder_ / "ancestors.py"});
    Program node(argv, environment_);
    EXPECT_EQ(node.ExitCode(), 0) << node.err();
    EXPECT_THAT(node.out(), HasSubstr("ancestor " + std::to_string(node.pid()) + "\n"));
  }
}

TEST_F(StackPermissionsTest, WithYamaAt1AProcessThatIsNoDescendantShowsItsState) {
  DDPRUN_NEEDS(Missing("yama=1"));
  Program other({STACK_PROBE, "chain"});
  ASSERT_TRUE(other.WaitForOut("ready"));
  const auto stacks = Start("yama=1", {"stacks", "--pid", std::to_string(other.pid())});
  EXPECT_EQ(stacks->ExitCode(), 77);
  EXPECT_THAT(stacks->out(),
              AllOf(HasSubstr("may not trace it: Yama's ptrace_scope is 1 (only ancestors may "
                              "trace), and ddprun has no CAP_SYS_PTRACE; "),
                    HasSubstr("main thread: S (waiting)"), Not(HasSubstr("Inner"))));
}

TEST_F(StackPermissionsTest, WithYamaAt2AWorkerShowsItsStateAndWhatGivesMore) {
  DDPRUN_NEEDS(Missing("yama=2"));
  StartJob("yama=2", {STACK_PROBE, "chain"});
  const Shown shown = StacksOfJob("yama=2", "main thread: S (waiting)");
  EXPECT_EQ(shown.code, 77);
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("rank 0: ddprun may not trace it: Yama's ptrace_scope is "
                              "2 (only with CAP_SYS_PTRACE); CAP_SYS_PTRACE gives it "),
                    HasSubstr("or sysctl kernel.yama.ptrace_scope=0"), Not(HasSubstr("Inner"))));
}

// ---- a seccomp filter that refuses ptrace, to ddprun and to its workers ----

TEST_F(StackPermissionsTest, BehindAFilterAProgramWithoutTheLibraryIsShownByItsSystemCall) {
  DDPRUN_NEEDS(Missing("seccomp"));
  StartJob("seccomp", {STACK_PROBE, "chain"});
  const Shown shown = StacksOfJob("seccomp", "main thread: S (waiting), in pause");
  EXPECT_EQ(shown.code, 77);
  EXPECT_THAT(shown.out, AllOf(HasSubstr(std::string(kFiltered) + "\n"), Not(HasSubstr("Inner"))));
}

#ifdef OWN_STACKS_PROBE
TEST_F(StackPermissionsTest, BehindAFilterAProgramOfTheLibraryWritesItsStacksItself) {
  DDPRUN_NEEDS(Missing("seccomp"));
  StartJob("seccomp", {OWN_STACKS_PROBE, "chain"});
  const Shown shown = StacksOfJob("seccomp", kNative);
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.out, AllOf(HasSubstr(std::string(kFiltered) +
                                         ". Its threads have written their stacks themselves\n"),
                               ContainsRegex("1 main stack_probe.cc:[0-9]+ → Outer ")));
}
#endif

TEST_F(StackPermissionsTest, BehindAFilterAPythonProgramShowsItsPythonFrames) {
  DDPRUN_NEEDS(Missing("seccomp"));
  StartJob("seccomp", {"/usr/bin/python3", folder_ / "script.py", folder_.path()});
  const Shown shown = StacksOfJob("seccomp", kPython);
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr(std::string(kFiltered) + ". Its Python frames are from faulthandler; "
                                                       "native frames are missing\n"),
                    ContainsRegex("1 <module> script.py:6 → read_the_next_shard script.py:5 → "
                                  "[^→]*nanosleep")));
}

// A wrapper starts the interpreter. The Python module prepares the stacks at its first step.
TEST_F(StackPermissionsTest, BehindAFilterTheRankThatHangsIsNamedByItsPythonFrames) {
  DDPRUN_NEEDS(Missing("seccomp"));
  ASSERT_EQ(Program({DdprunPath(), "python-module", folder_ / "module"}).ExitCode(), 0);
  environment_["PYTHONPATH"] = folder_ / "module";
  std::ofstream(folder_ / "run.sh") << "exec /usr/bin/python3 \"$@\"\n";
  const auto node =
      Start("seccomp", {"--nproc-per-node", "3", "--hang-timeout", "3s", "--on-hang", "restart",
                        "--max-restarts", "1", "--log-dir", folder_ / "logs", "--", "sh",
                        folder_ / "run.sh", folder_ / "hangs.py", folder_.path()});
  EXPECT_EQ(node->ExitCode(), 0) << node->err();
  EXPECT_THAT(node->err(), AllOf(HasSubstr("hangs: no rank has moved for "),
                                 ContainsRegex("rank 1 on .* read_the_next_shard hangs.py:8"),
                                 HasSubstr("restart 1 of 1")));
}

#ifdef HANG_TRAINER
class LibraryStackPermissionsTest : public StackPermissionsTest {};

// From ddp::init() on the worker writes its stacks.
TEST_F(LibraryStackPermissionsTest, BehindAFilterTheFunctionThatARankHangsInIsNamed) {
  DDPRUN_NEEDS(Missing("seccomp"));
  environment_["GLOO_SOCKET_IFNAME"] = "lo";
  environment_["OMP_NUM_THREADS"] = "1";
  const auto node =
      Start("seccomp", {"--nproc-per-node", "2", "--hang-timeout", "5s", "--on-hang", "restart",
                        "--max-restarts", "1", "--log-dir", folder_ / "logs", "--", HANG_TRAINER,
                        folder_.path(), "LockTwice", "step", "1"});
  EXPECT_EQ(node->ExitCode(), 0) << node->err();
  EXPECT_THAT(node->err(),
              AllOf(HasSubstr("hangs: no rank has moved for "),
                    ContainsRegex("  rank 1: .*LockTwice"), HasSubstr("restart 1 of 1")));
}
#endif

}  // namespace stack_permissions_test
}  // namespace ddprun
