// Nothing that a worker has started outlives the job, however the job ends. Real processes, no
// root needed; docs/internals/guardian.md is the contract.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>

#include "tests/support/job.h"

namespace ddprun {
namespace orphans_test {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::IsEmpty;

// After the agent's SIGKILL nothing may be left for longer than this.
constexpr milliseconds kPromise{2000};

void Pause(milliseconds duration) { poll(nullptr, 0, static_cast<int>(duration.count())); }

// Polls, because nothing announces that the last process of a kind has ended.
bool Eventually(const std::function<bool()>& done, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const bool late = std::chrono::steady_clock::now() >= deadline;
    if (done()) return true;
    if (late) return false;
    Pause(milliseconds(5));
  }
}

// Fields of /proc/PID/stat after the name: state, parent, ...
std::string StatOf(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? "" : stat.substr(name_end + 2);
}

// Processes whose environment or command line has the mark. A zombie has neither.
std::vector<pid_t> Marked(const std::string& mark) {
  std::vector<pid_t> found = ProcessesWith({{"DDPRUN_TEST_MARK", mark}});
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (ReadFile(entry.path() / "cmdline").find("stray-of-" + mark + '\0') != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

// The guardian of this agent; 0 if it has none (yet).
pid_t GuardianOf(pid_t agent) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (ReadFile(entry.path() / "comm") != "ddprun-guardian\n") continue;
    const pid_t pid = std::stoi(name);
    if (StatOf(pid).find(" " + std::to_string(agent) + " ") == 1) return pid;
  }
  return 0;
}

class OrphansTest : public testing::TestWithParam<const char*> {
 protected:
  // Two workers. Each leaves a process of the parameter's kind behind. Waits for all of
  // them.
  Program& Start(const std::string& end, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--nproc-per-node", "2", "--stop-grace", "1s"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {ORPHAN_MAKER, GetParam(), end});
    Program& node = job_.AddNode(arguments);
    EXPECT_TRUE(node.WaitForOut("ready")) << node.err();
    return node;
  }
  std::vector<pid_t> Marked() const { return ddprun::orphans_test::Marked(job_.mark()); }
  // A check without a search for processes: each of them holds the lock.
  bool LockIsFree() const {
    const int fd = open(lock_.c_str(), O_RDONLY);
    const bool free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return free;
  }
  void ExpectNothingLeft() const {
    EXPECT_TRUE(LockIsFree());
    EXPECT_THAT(Marked(), IsEmpty());
  }
  // A process that closes its files is found by its mark only. A process that changes its pid again
  // and again is found by the lock only.
  bool StrayIsThere() const { return !LockIsFree() || Marked().size() > 4; }
  // The run's folders for sockets.
  std::vector<std::string> Temporary() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(temporary_.path())) {
      names.push_back(entry.path());
    }
    return names;
  }

  TempDir folder_;
  TempDir temporary_;
  const std::string lock_ = folder_ / "lock";
  const std::ofstream make_lock_{lock_};
  Job job_{folder_.path(), {{"TMPDIR", temporary_.path()}, {"ORPHAN_LOCK", lock_}}};
};

INSTANTIATE_TEST_SUITE_P(Kinds, OrphansTest,
                         testing::Values("child", "grandchild", "daemon", "nameless", "hydra",
                                         "relay"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OrphansTest, AreGoneWhenTheJobHasSucceeded) {
  Program& node = Start("exit");
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  ExpectNothingLeft();
}

TEST_P(OrphansTest, AreGoneWhenAWorkerHasCrashed) {
  Program& node = Start("crash");
  EXPECT_EQ(node.ExitCode(), 128 + SIGABRT) << node.err();
  ExpectNothingLeft();
}

TEST_P(OrphansTest, AreGoneWhenTheAgentWasTold) {
  Program& node = Start("stay");
  node.Signal(SIGTERM);
  EXPECT_EQ(node.ExitCode(), 143) << node.err();
  ExpectNothingLeft();
}

TEST_P(OrphansTest, AreGoneSoonAfterTheAgentWasKilled) {
  Program& node = Start("stay");
  EXPECT_TRUE(StrayIsThere());
  node.Signal(SIGKILL);
  EXPECT_TRUE(Eventually([this] { return LockIsFree() && Marked().empty(); }, kPromise))
      << testing::PrintToString(Marked());
  EXPECT_THAT(Temporary(), IsEmpty()) << "the guardian removes the sockets";
}

TEST_P(OrphansTest, AreGoneWhenTheGuardianWasKilledAndTheAgentSaysSo) {
  Program& node = Start("stay");
  const pid_t guardian = GuardianOf(node.pid());
  ASSERT_GT(guardian, 0);
  kill(guardian, SIGKILL);
  EXPECT_EQ(node.ExitCode(), 70) << node.err();
  ExpectNothingLeft();
  EXPECT_THAT(node.err(), HasSubstr("the guardian (pid " + std::to_string(guardian) +
                                    ") was killed by SIGKILL"));
}

TEST_P(OrphansTest, OfOneGenerationAreGoneBeforeTheNext) {
  // Each generation first looks for strays of the generation before.
  const std::string script =
      "{ pgrep -f ^stray-of-$DDPRUN_TEST_MARK; flock -n -x $ORPHAN_LOCK echo free; } >> " +
      (folder_ / "seen") + "; [ $DDPRUN_GENERATION = 2 ] && exit 0; exec " ORPHAN_MAKER " " +
      GetParam() + " crash";
  Program& node = job_.AddNode({"--max-restarts", "2", "sh", "-c", script});
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_EQ(ReadFile(folder_ / "seen"), "free\nfree\nfree\n");
  ExpectNothingLeft();
}

TEST(OrphanSearchTest, FindsPlantedSurvivors) {
  TempDir folder;
  for (const std::string kind : {"daemon", "nameless"}) {
    const std::string mark = "planted-" + kind + "-" + std::to_string(getpid());
    Program planter({ORPHAN_MAKER, kind, "exit"}, {{"DDPRUN_TEST_MARK", mark}});
    EXPECT_EQ(planter.ExitCode(), 0);
    EXPECT_THAT(Marked(mark), testing::Not(IsEmpty())) << kind;
    for (const pid_t pid : Marked(mark)) kill(pid, SIGKILL);
    EXPECT_TRUE(Eventually([&] { return Marked(mark).empty(); }, kHang));
  }
}

TEST(OrphanSearchTest, TheLockShowsAPlantedSurvivorThatIsNeverTheSameProcess) {
  TempDir folder;
  const std::string lock = folder / "lock";
  std::ofstream{lock};
  Program planter({"setsid", ORPHAN_MAKER, "relay", "exit"},
                  {{"DDPRUN_TEST_MARK", "planted"}, {"ORPHAN_LOCK", lock}});
  EXPECT_EQ(planter.ExitCode(), 0);
  const int fd = open(lock.c_str(), O_RDONLY);
  EXPECT_EQ(flock(fd, LOCK_EX | LOCK_NB), -1);
  std::filesystem::remove(lock);  // tells the stray to end
  EXPECT_EQ(flock(fd, LOCK_EX), 0);
  close(fd);
}

TEST(OrphanMomentsTest, AnAgentKilledAtAnyMomentOfItsStartLeavesNothing) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  TempDir folder;
  for (int i = 0; i < 40; ++i) {
    Job job(folder / std::to_string(i));
    Program& node = job.AddNode({"--nproc-per-node", "6", ORPHAN_MAKER, "daemon", "stay"});
    // Not synchronization: the moment of the kill is what is tested. The start takes about 20 ms.
    poll(nullptr, 0, std::uniform_int_distribution(0, 40)(random));
    node.Signal(SIGKILL);
    ASSERT_TRUE(Eventually([&] { return Marked(job.mark()).empty(); }, kPromise))
        << "try " << i << ": " << testing::PrintToString(Marked(job.mark()));
  }
}

TEST(OrphanMomentsTest, WorkersDieWithAgentAndGuardianKilledTogether) {
  TempDir folder;
  Job job(folder.path());
  Program& node = job.AddNode({"--nproc-per-node", "2", "sh", "-c", "echo up; exec sleep 1000"});
  ASSERT_TRUE(node.WaitForOut("up"));
  const pid_t guardian = GuardianOf(node.pid());
  ASSERT_GT(guardian, 0);
  kill(node.pid(), SIGSTOP);  // so that the agent cannot do anything between the two kills
  kill(guardian, SIGKILL);
  kill(node.pid(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return job.Survivors().empty(); }, kPromise));
}

TEST(OrphanMomentsTest, AStoppedWorkerEndsInOrderWhenTheAgentIsTold) {
  TempDir folder;
  Job job(folder.path());
  Program& node = job.AddNode({"--stop-grace", "50s", "sh", "-c",
                               "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 1 & "
                               "wait $!; done"});
  ASSERT_TRUE(node.WaitForOut("up"));
  const pid_t worker = job.Worker(0);
  ASSERT_GT(worker, 0);
  kill(-worker, SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return StatOf(worker)[0] == 'T'; }, kHang));
  EXPECT_EQ(GuardianOf(node.pid()) > 0 && kill(node.pid(), 0) == 0, true) << "a stop is no death";
  node.Signal(SIGTERM);
  EXPECT_EQ(node.ExitCode(), 143) << node.err();
  EXPECT_THAT(node.out(), HasSubstr("bye"));
}

TEST(OrphanMomentsTest, AWorkerThatCannotBeEndedIsNamedAndTheJobGoesOnWhenItIsGone) {
  TempDir folder;
  Job job(folder.path());
  const std::string crash = folder / "crash";
  ASSERT_EQ(mkfifo(crash.c_str(), 0600), 0);
  Program& node = job.AddNode(
      {"--nproc-per-node", "2", "--max-restarts", "1", "--stop-grace", "100ms", "sh", "-c",
       "[ $DDPRUN_GENERATION = 1 ] && exit 0; [ $RANK = 1 ] && { read x < " + crash +
           "; exit 3; }; echo up; exec sleep 1000"});
  ASSERT_TRUE(node.WaitForOut("up"));
  const pid_t worker = job.Worker(0);
  ASSERT_GT(worker, 0);
  // A debugger that holds a process at its exit has the same effect as a driver that does so.
  ASSERT_EQ(ptrace(PTRACE_SEIZE, worker, 0, PTRACE_O_TRACEEXIT), 0);
  { std::ofstream release(crash); }
  const std::string name = "rank 0 (pid " + std::to_string(worker) + ")";
  EXPECT_TRUE(node.WaitForErr("is left out of the job until its processes are gone: " + name +
                              " is still there"))
      << node.err();
  EXPECT_THAT(node.err(), HasSubstr(name + " did not end after SIGKILL"));
  EXPECT_THAT(node.err(), HasSubstr(" s after SIGKILL, held by a debugger"));
  EXPECT_THAT(job.Survivors(), testing::Contains(worker));
  int status = 0;
  ASSERT_EQ(waitpid(worker, &status, __WALL), worker);
  EXPECT_EQ(status >> 8, SIGTRAP | PTRACE_EVENT_EXIT << 8);
  ptrace(PTRACE_CONT, worker, 0, 0);
  EXPECT_EQ(waitpid(worker, &status, __WALL), worker);
  EXPECT_EQ(node.ExitCode(), 0) << node.err();
  EXPECT_TRUE(Eventually([&] { return job.Survivors().empty(); }, kHang));
}

TEST(GuardianReportTest, AKilledAgentsRanksAreGivenAwayWithoutWaitingForItsLease) {
  TempDir folder;
  Daemon daemon(folder.path());
  Job job(folder.path());
  const std::vector<std::string> arguments = {
      "--rdzv-endpoint",
      daemon.endpoint(),
      "--rdzv-id",
      "job",
      "--rdzv-conf",
      "lease=60s",
      "--nnodes",
      "2",
      "sh",
      "-c",
      "[ $DDPRUN_GENERATION = 1 ] && exit 0; echo up; exec sleep 1000"};
  Program& a = job.AddNode(arguments);
  Program& b = job.AddNode(arguments);
  ASSERT_TRUE(a.WaitForOut("up"));
  ASSERT_TRUE(b.WaitForOut("up"));
  Program& spare = job.AddNode(arguments);
  ASSERT_TRUE(daemon.program().WaitForErr("this one waits as a spare"));
  a.Signal(SIGKILL);
  EXPECT_EQ(b.ExitCode(), 0) << b.err();
  EXPECT_EQ(spare.ExitCode(), 0) << spare.err();
  EXPECT_THAT(daemon.program().err(), HasSubstr("its agent was killed; its workers are gone"));
  EXPECT_THAT(daemon.program().err(), testing::Not(HasSubstr("nothing heard for")));
  EXPECT_THAT(job.Survivors(), IsEmpty());
}

TEST(GuardianReportTest, ANodeWhoseGuardianWasKilledLeavesTheJob) {
  TempDir folder;
  Daemon daemon(folder.path());
  Job job(folder.path());
  const std::vector<std::string> arguments = {
      "--rdzv-endpoint",
      daemon.endpoint(),
      "--rdzv-id",
      "job",
      "--nnodes",
      "1:2",
      "sh",
      "-c",
      "[ $DDPRUN_GENERATION = 1 ] && exit 0; echo up; exec sleep 1000"};
  Program& a = job.AddNode(arguments);
  Program& b = job.AddNode(arguments);
  ASSERT_TRUE(a.WaitForOut("up"));
  ASSERT_TRUE(b.WaitForOut("up"));
  const pid_t guardian = GuardianOf(a.pid());
  ASSERT_GT(guardian, 0);
  kill(guardian, SIGKILL);
  EXPECT_EQ(a.ExitCode(), 70) << a.err();
  EXPECT_EQ(b.ExitCode(), 0) << b.err();
  EXPECT_THAT(daemon.program().err(), HasSubstr("left: the guardian"));
}

}  // namespace orphans_test
}  // namespace ddprun
