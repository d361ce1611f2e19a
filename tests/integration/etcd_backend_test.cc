// --rdzv-backend=etcd over a real etcd: agents find the rendezvous that etcd names, or start one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/os/local_address.h"
#include "tests/support/capabilities.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/job.h"
#include "tests/support/temp_dir.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace etcd_backend_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

bool IsRendezvous(pid_t pid) {
  const std::string words = ReadFile(absl::StrCat("/proc/", pid, "/cmdline"));
  return words.rfind(std::string("ddprun\0rendezvous\0", 18), 0) == 0;
}

// The rendezvous that agents of the job have started.
std::vector<pid_t> RendezvousOf(const Job& job) {
  std::vector<pid_t> found = job.Survivors();
  std::erase_if(found, [](pid_t pid) { return !IsRendezvous(pid); });
  return found;
}

// Waits until no process of the job is left, including the rendezvous that the job started.
std::vector<pid_t> SurvivorsInTheEnd(const Job& job) {
  for (const pid_t pid : job.Survivors()) {
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd ended{process.get(), POLLIN, 0};
    if (process.valid()) poll(&ended, 1, 20'000);
  }
  return job.Survivors();
}

class EtcdBackendTest : public testing::Test {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForEtcd());
    etcd_ = std::make_unique<EtcdCluster>(1);
  }
  std::vector<std::string> Flags(const std::string& nodes, const std::string& script,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> flags = {"--rdzv-backend=etcd",
                                      "--rdzv-endpoint=" + etcd_->endpoints().front(),
                                      "--rdzv-id=job", "--nnodes=" + nodes};
    flags.insert(flags.end(), more.begin(), more.end());
    flags.insert(flags.end(), {"sh", "-c", script});
    return flags;
  }
  std::string go() const { return folder_ / "go"; }
  // Two nodes with one worker each. The workers run until the file go() exists.
  void StartJob(Job& job) {
    const std::string script =
        absl::StrCat("echo up $DDPRUN_GENERATION; while [ ! -e ", go(), " ]; do sleep 0.05; done");
    for (int node = 0; node < 2; ++node) job.AddNode(Flags("2", script));
    for (int node = 0; node < 2; ++node) {
      ASSERT_TRUE(job.node(node).WaitForOut("up 0")) << job.node(node).err();
    }
  }
  // How often the rendezvous have logged that an agent has come back.
  static int TimesBack(const Job& job) {
    const std::string log = RendezvousLogs(job);
    int times = 0;
    for (std::size_t at = 0;
         (at = log.find("is back within its lease", at)) != std::string::npos;) {
      ++times;
      ++at;
    }
    return times;
  }
  // The logs of the rendezvous of both agents.
  static std::string RendezvousLogs(const Job& job) {
    return absl::StrCat(ReadFile(job.run(0) + "/rendezvous.log"),
                        ReadFile(job.run(1) + "/rendezvous.log"));
  }

  TempDir folder_;
  std::unique_ptr<EtcdCluster> etcd_;
};

TEST_F(EtcdBackendTest, OneAgentStartsTheRendezvousAndNothingIsLeft) {
  for (const char* const run : {"first", "again"}) {
    Job job(folder_ / run);
    for (int node = 0; node < 2; ++node) job.AddNode(Flags("2", "echo rank $RANK"));
    std::string ranks;
    int started = 0;
    for (int node = 0; node < 2; ++node) {
      EXPECT_EQ(job.node(node).ExitCode(), 0) << run << ": " << job.node(node).err();
      ranks += job.node(node).out();
      started += job.node(node).err().find("starting one here") != std::string::npos;
    }
    EXPECT_THAT(ranks, AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
    EXPECT_EQ(started, 1) << run;
    EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty()) << run;
    EXPECT_THAT(RendezvousLogs(job), AllOf(HasSubstr("takes over: "), HasSubstr("no job is left")));
  }
}

TEST_F(EtcdBackendTest, ARendezvousThatIsKilledIsStartedAgainAndNothingRestarts) {
  Job job(folder_.path());
  ASSERT_NO_FATAL_FAILURE(StartJob(job));
  const pid_t worker = job.Worker(0);
  ASSERT_EQ(RendezvousOf(job).size(), 1u);
  const pid_t first = RendezvousOf(job).front();
  kill(first, SIGKILL);
  const auto until = std::chrono::steady_clock::now() + kHang;
  while (TimesBack(job) < 2 && std::chrono::steady_clock::now() < until) {
    // Which of the logs is written is not known.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(TimesBack(job), 2);
  EXPECT_THAT(RendezvousLogs(job), HasSubstr("is gone"));
  EXPECT_EQ(job.Worker(0), worker);
  std::ofstream(go()) << "";
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(job.node(node).ExitCode(), 0) << job.node(node).err();
    EXPECT_THAT(job.node(node).err(), Not(HasSubstr("generation 1")));
  }
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

TEST_F(EtcdBackendTest, TheGuardianOfAKilledAgentFindsTheRendezvous) {
  Job job(folder_.path());
  const std::string script = "[ $DDPRUN_GENERATION = 1 ] && exit 0; echo up; exec sleep 1000";
  for (int node = 0; node < 2; ++node) {
    job.AddNode(Flags("1:2", script, {"--rdzv-conf=last_call_timeout=2"}));
  }
  for (int node = 0; node < 2; ++node) ASSERT_TRUE(job.node(node).WaitForOut("up"));
  job.node(1).Signal(SIGKILL);
  EXPECT_EQ(job.node(0).ExitCode(), 0) << job.node(0).err();
  EXPECT_THAT(job.node(0).err(), HasSubstr("its agent was killed"));
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

TEST_F(EtcdBackendTest, ARendezvousThatIsThereIsUsedAndLeftRunning) {
  Program heads({DdprunPath(), "rendezvous", "--listen", "127.0.0.1:0", "--etcd",
                 etcd_->endpoints().front()});
  ASSERT_TRUE(heads.WaitForErr("serves the jobs: term"));
  Job job(folder_.path());
  for (int node = 0; node < 2; ++node) job.AddNode(Flags("2", "exit 0"));
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(job.node(node).ExitCode(), 0) << job.node(node).err();
    EXPECT_THAT(job.node(node).err(), HasSubstr("for ddprun status"));
    EXPECT_FALSE(std::filesystem::exists(job.run(node) + "/rendezvous.log"));
  }
  heads.Signal(SIGTERM);
  EXPECT_EQ(heads.ExitCode(), 0);
}

// drain and page ask for something that does not exist. Their answers show that they found the
// rendezvous.
TEST_F(EtcdBackendTest, OperatorsFindTheRendezvousThroughEtcdToo) {
  Job job(folder_.path());
  ASSERT_NO_FATAL_FAILURE(StartJob(job));
  const auto ask = [&](const std::vector<std::string>& words) {
    std::vector<std::string> argv = {DdprunPath()};
    argv.insert(argv.end(), words.begin(), words.end());
    argv.insert(argv.end(), {"--rdzv-backend=etcd", "--rdzv-endpoint", etcd_->endpoints().front(),
                             "--timeout=5s"});
    Program program(argv);
    const int code = program.ExitCode();
    return absl::StrCat(code, ": ", program.out(), program.err());
  };
  EXPECT_THAT(ask({"status"}), AllOf(HasSubstr("0: "), HasSubstr("it leads at")));
  EXPECT_THAT(ask({"top"}), AllOf(HasSubstr("0: "), HasSubstr("job")));
  EXPECT_THAT(ask({"events", "job"}), HasSubstr("\"started\""));
  EXPECT_THAT(ask({"logs", "job", "--rank=0"}), HasSubstr("up 0"));
  EXPECT_THAT(ask({"stacks", "job", "--json"}), HasSubstr("{"));
  EXPECT_THAT(ask({"drain", "nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(ask({"page"}), HasSubstr("--http"));
  EXPECT_THAT(ask({"stop", "job"}), HasSubstr("0: "));
  for (int node = 0; node < 2; ++node) job.node(node).ExitCode();
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
  EXPECT_THAT(ask({"status"}), AllOf(HasSubstr("69: "), HasSubstr("no rendezvous leads: etcd at")));
}

TEST_F(EtcdBackendTest, AJobFileNamesTheEtcd) {
  const std::string file = folder_ / "job.yaml";
  std::ofstream(file)
      << "nodes: 2\ncommand: echo rank $RANK\nrendezvous: {backend: etcd, endpoint: \""
      << etcd_->endpoints().front() << "\", id: job}\n";
  Job job(folder_.path());
  for (int node = 0; node < 2; ++node) job.AddNode({"-c", file});
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(job.node(node).ExitCode(), 0) << job.node(node).err();
  }
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
}

TEST_F(EtcdBackendTest, AnEtcdThatCannotBeReachedIsSaidSoonAndEndsTheAgentInTheEnd) {
  etcd_->Freeze(0);
  Job job(folder_.path());
  Program& node = job.AddNode(Flags("2", "exit 0", {"--rdzv-conf=timeout=10"}));
  EXPECT_TRUE(node.WaitForErr("waiting for the rendezvous that etcd at"));
  EXPECT_EQ(node.ExitCode(), 69);
  EXPECT_THAT(node.err(), AllOf(HasSubstr("does not answer"), HasSubstr("gave up after 1")));
  EXPECT_THAT(SurvivorsInTheEnd(job), IsEmpty());
  etcd_->Thaw(0);
}

TEST_F(EtcdBackendTest, BeyondLoopbackEtcdNeedsTls) {
  const std::string outside = OutsideAddress().value_or(HostName());
  Job job(folder_.path());
  Program& node = job.AddNode(
      {"--rdzv-backend=etcd", absl::StrCat("--rdzv-endpoint=", outside), "--nnodes=2", "exit"});
  EXPECT_EQ(node.ExitCode(), 64);
  EXPECT_THAT(node.err(), AllOf(HasSubstr(absl::StrCat("--rdzv-endpoint ", outside, ":2379")),
                                HasSubstr("etcd without TLS")));
}

}  // namespace etcd_backend_test
}  // namespace ddprun
