// The rendezvous of a Slurm step is not on the port that follows from the job's id. The agents have
// Slurm's variables, but there is no Slurm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/support/job.h"
#include "tests/support/sanitizer.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace slurm_port_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Listens on this port of every address. The result is invalid if the port is taken.
UniqueFd Listen(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  const bool listens = bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                       listen(fd.get(), 64) == 0;
  if (!listens) fd.reset();
  return fd;
}

class SlurmPortTest : public testing::Test {
 protected:
  SlurmPortTest() {
    // Tests run at the same time, and their pids are close together. These numbers are not.
    std::mt19937 random(static_cast<unsigned>(getpid()));
    // The port is 10000 + 4 × id; the next three have to be free.
    for (;;) {
      job_id_ = std::uniform_int_distribution<int>(0, 4999)(random);
      taken_ = Listen(Port());
      bool free = taken_.valid();
      for (int next = 1; next <= 3; ++next) free = free && Listen(Port() + next).valid();
      if (free) return;
    }
  }
  int Port() const { return 10'000 + 4 * job_id_; }

  // Starts a node's agent as Slurm does. `taken_` holds the usual port and answers nobody.
  std::unique_ptr<Program> Start(int node, const std::string& script) {
    return Start(node, script, job_id_, {"--insecure"});
  }
  std::unique_ptr<Program> Start(int node, const std::string& script, int job_id,
                                 const std::vector<std::string>& credentials) {
    const std::string number = std::to_string(node);
    std::vector<std::string> argv = {DdprunPath(), "--log-dir", folder_ / ("logs" + number), "-c",
                                     folder_ / "job.yaml"};
    argv.insert(argv.end(), credentials.begin(), credentials.end());
    argv.insert(argv.end(), {"--no-python", "--", "sh", "-c", script});
    std::map<std::string, std::string> environment = {
        {"DDPRUN_TEST_MARK", mark_},          {"SLURM_JOB_ID", std::to_string(job_id)},
        {"SLURM_STEP_NUM_NODES", "2"},        {"SLURM_NODEID", number},
        {"SLURM_STEP_NODELIST", "127.0.0.1"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
        {"SLURMD_NODENAME", "n" + number}};
    environment.insert(more_.begin(), more_.end());
    return std::make_unique<Program>(argv, environment);
  }
  static pid_t ChildOf(pid_t pid) {
    const std::string process = "/proc/" + std::to_string(pid);
    pid_t child = 0;
    std::istringstream(ReadFile(process + "/task/" + std::to_string(pid) + "/children")) >> child;
    return child;
  }

  // The rendezvous that an agent of this test has started.
  pid_t Daemon() const {
    for (const pid_t pid : ProcessesWith({{"DDPRUN_TEST_MARK", mark_}})) {
      const std::string arguments = ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
      if (arguments.find("--until-idle") != std::string::npos) return pid;
    }
    return 0;
  }

  const TempDir folder_;
  const std::string mark_ = "slurm-port-" + std::to_string(getpid());
  std::map<std::string, std::string> more_;  // environment of the agents
  int job_id_ = 0;
  UniqueFd taken_;
};

// The guardian must report to the address of the real rendezvous. Otherwise the other nodes wait
// for the end of the lease, which is longer than this test may take. Seen red with a guardian that
// reported to the endpoint.
TEST_F(SlurmPortTest, TheGuardianTellsTheRendezvousWhereItIs) {
  // Under a sanitizer, the second agent takes too long to find the rendezvous of the first one.
  if (kUnderSanitizer) GTEST_SKIP() << "left out under sanitizers: too slow to find the port";
  std::ofstream(folder_ / "job.yaml") << "rendezvous: {lease: 10min}\n";
  const std::string script =
      "echo generation $DDPRUN_GENERATION; [ $DDPRUN_GENERATION != 0 ] || exec sleep 1000";
  const auto first = Start(0, script);
  const auto second = Start(1, script);
  ASSERT_TRUE(first->WaitForOut("generation 0")) << first->err();
  ASSERT_TRUE(second->WaitForOut("generation 0")) << second->err();
  EXPECT_THAT(first->err() + second->err(), HasSubstr("starting the rendezvous there"));
  // Kills the agent, not the task shim, which starts the agent again.
  const pid_t agent = ChildOf(second->pid());
  ASSERT_GT(agent, 0);
  kill(agent, SIGKILL);
  EXPECT_TRUE(first->WaitForOut("generation 1")) << first->err();
  EXPECT_EQ(first->ExitCode(), 0) << first->err();
  EXPECT_EQ(second->ExitCode(), 0) << second->err();
  EXPECT_THAT(ProcessesWith({{"DDPRUN_TEST_MARK", mark_}}), IsEmpty());
}

// At no port can the rendezvous have its folder. The agent tries all of them, one at once after the
// other, before it ends.
TEST_F(SlurmPortTest, ARendezvousThatCanStartAtNoPortEndsTheAgentWithTheReason) {
  taken_.reset();
  std::ofstream(folder_ / "job.yaml") << "rendezvous: {lease: 10min}\n";
  const std::string home = folder_ / "home";
  ASSERT_EQ(::mkdir(home.c_str(), 0700), 0);
  for (int port = Port(); port <= Port() + 3; ++port) {
    std::ofstream(home + "/localhost:" + std::to_string(port)) << "not a folder";
  }
  more_ = {{"DDPRUN_STATE_HOME", home}};
  const auto agent = Start(0, "exit 0");
  EXPECT_EQ(agent->ExitCode(), 69) << agent->err();
  EXPECT_THAT(agent->err(), HasSubstr("unreachable: the rendezvous that this node started"));
  for (int port = Port(); port <= Port() + 3; ++port) {
    EXPECT_THAT(agent->err(),
                HasSubstr("cannot open the folder " + home + "/localhost:" + std::to_string(port)));
  }
  EXPECT_THAT(ProcessesWith({{"DDPRUN_TEST_MARK", mark_}}), IsEmpty());
}

// Another job has the usual port, and other credentials.
TEST_F(SlurmPortTest, ARendezvousThatDeniesUsIsNotOurs) {
  if (kUnderSanitizer) GTEST_SKIP() << "left out under sanitizers: too slow to find the port";
  std::ofstream(folder_ / "job.yaml") << "rendezvous: {lease: 10min}\n";
  const auto token_file = [&](const std::string& user) {
    const std::string path = folder_ / user;
    std::ofstream(path) << user << ":0123456789abcdef-" << user << "\n";
    chmod(path.c_str(), 0600);
    return std::vector<std::string>{"--token-file", path};
  };
  taken_.reset();
  const auto other = Start(0, "exit 0", job_id_ + 5000, token_file("bob"));
  ASSERT_TRUE(other->WaitForErr("waiting for 1 node")) << other->err();
  const auto first = Start(0, "exit 0", job_id_, token_file("ann"));
  const auto second = Start(1, "exit 0", job_id_, token_file("ann"));
  EXPECT_EQ(first->ExitCode(), 0) << first->err();
  EXPECT_EQ(second->ExitCode(), 0) << second->err();
  other->Signal(SIGTERM);
  EXPECT_TRUE(other->Wait().has_value()) << other->err();
}

// With a second rendezvous, later agents would join that one, and both would wait for ever.
TEST_F(SlurmPortTest, ARendezvousThatIsSlowToAnswerStaysTheOnlyOne) {
  if (kUnderSanitizer) GTEST_SKIP() << "left out under sanitizers: too slow to find the port";
  std::ofstream(folder_ / "job.yaml") << "rendezvous: {lease: 10min}\n";
  taken_.reset();
  const auto first = Start(0, "exit 0");
  ASSERT_TRUE(first->WaitForErr("waiting for 1 node")) << first->err();
  const pid_t daemon = Daemon();
  ASSERT_GT(daemon, 0);
  kill(daemon, SIGSTOP);
  // This listener is no rendezvous. It shows that the second agent has tried the next port.
  UniqueFd other = Listen(Port() + 2);
  ASSERT_TRUE(other.valid());
  const auto second = Start(1, "exit 0");
  EXPECT_TRUE(UniqueFd(accept(other.get(), nullptr, nullptr)).valid());
  other.reset();
  kill(daemon, SIGCONT);
  EXPECT_EQ(first->ExitCode(), 0) << first->err();
  EXPECT_EQ(second->ExitCode(), 0) << second->err();
  EXPECT_THAT(second->err(), Not(HasSubstr("starting the rendezvous")));
}

}  // namespace slurm_port_test
}  // namespace ddprun
