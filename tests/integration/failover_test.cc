// Three rendezvous over a real etcd of three members, and a job of two nodes: whichever process is
// lost, no worker restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/capabilities.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/job.h"
#include "tests/support/sanitizer.h"
#include "tests/support/temp_dir.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace failover_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

// Of loopback. They are not held: those who are given them come at once.
std::vector<std::string> FreeEndpoints(int count) {
  std::vector<std::string> endpoints;
  std::vector<UniqueFd> held;
  for (int i = 0; i < count; ++i) {
    held.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(held.back().get(), name, length), 0);
    EXPECT_EQ(getsockname(held.back().get(), name, &length), 0);
    endpoints.push_back(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)));
  }
  return endpoints;
}

// Rendezvous that share an etcd.
class Rendezvous {
 public:
  Rendezvous(std::vector<std::string> etcd, int count)
      : etcd_(std::move(etcd)), endpoints_(FreeEndpoints(count)), programs_(count) {
    for (int i = 0; i < count; ++i) Start(i);
  }
  void Start(int index) {
    programs_[index] = std::make_unique<Program>(
        std::vector<std::string>{DdprunPath(), "rendezvous", "--listen", endpoints_[index],
                                 "--etcd", absl::StrJoin(etcd_, ",")});
    EXPECT_TRUE(programs_[index]->WaitForOut("listening on"));
  }
  std::string endpoints() const { return absl::StrJoin(endpoints_, ","); }
  Program& operator[](int index) { return *programs_[index]; }

  // How often it has led.
  int Reigns(int index) {
    const std::string log = programs_[index]->err();
    int reigns = 0;
    for (std::size_t at = 0; (at = log.find("serves the jobs: term", at)) != std::string::npos;) {
      ++reigns;
      ++at;
    }
    return reigns;
  }
  std::vector<int> AllReigns() {
    std::vector<int> all;
    for (int i = 0; i < static_cast<int>(programs_.size()); ++i) all.push_back(Reigns(i));
    return all;
  }
  // The one that has led more often than in `before`.
  int WaitForLeader(const std::vector<int>& before) {
    const auto until = std::chrono::steady_clock::now() + kHang;
    while (std::chrono::steady_clock::now() < until) {
      const std::vector<int> now = AllReigns();
      for (std::size_t i = 0; i < now.size(); ++i) {
        if (now[i] > before[i]) return static_cast<int>(i);
      }
      std::this_thread::sleep_for(milliseconds(5));  // looks again
    }
    ADD_FAILURE() << "nobody leads";
    return 0;
  }

 private:
  const std::vector<std::string> etcd_;
  const std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<Program>> programs_;
};

class FailoverTest : public testing::Test {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForEtcd());
    etcd_ = std::make_unique<EtcdCluster>(3);
    rendezvous_ = std::make_unique<Rendezvous>(etcd_->endpoints(), 3);
    leader_ = rendezvous_->WaitForLeader({0, 0, 0});
  }
  void StartJob(int max_restarts = 0) {
    for (int node = 0; node < 2; ++node) {
      job_.AddNode({"--rdzv-endpoint", rendezvous_->endpoints(), "--rdzv-id", "job", "--nnodes",
                    "2", "--max-restarts", std::to_string(max_restarts), "sh", "-c",
                    absl::StrCat("echo up $DDPRUN_GENERATION; while [ ! -e ", go(),
                                 " ]; do sleep 0.05; done")});
    }
    for (int node = 0; node < 2; ++node) ASSERT_TRUE(job_.node(node).WaitForOut("up 0"));
  }
  std::string go() const { return folder_ / "go"; }
  std::array<pid_t, 2> Workers() const { return {job_.Worker(0), job_.Worker(1)}; }
  Program& leader() { return (*rendezvous_)[leader_]; }
  // The next one that leads, and both agents have found it.
  void WaitForNext(const std::vector<int>& before) {
    leader_ = rendezvous_->WaitForLeader(before);
    for (int node = 0; node < 2; ++node) {
      ASSERT_TRUE(leader().WaitForErr("is back within its lease")) << leader().err();
    }
  }
  // Not synchronization: that nothing happens for longer than a lease is what is tested.
  void OutliveTheLease() { std::this_thread::sleep_for(seconds(4)); }
  void EndUndisturbed(const std::array<pid_t, 2>& workers) {
    OutliveTheLease();
    EXPECT_EQ(Workers(), workers);
    std::ofstream(go()) << "";
    for (int node = 0; node < 2; ++node) {
      EXPECT_EQ(job_.node(node).ExitCode(), 0) << job_.node(node).err();
      EXPECT_THAT(job_.node(node).err(), Not(HasSubstr("generation 1")));
    }
  }

  TempDir folder_;
  std::unique_ptr<EtcdCluster> etcd_;
  std::unique_ptr<Rendezvous> rendezvous_;
  Job job_{folder_.path()};
  int leader_ = 0;
};

TEST_F(FailoverTest, AKilledLeaderRestartsNoWorker) {
  StartJob();
  const auto workers = Workers();
  for (int times = 0; times < 2; ++times) {
    const auto before = rendezvous_->AllReigns();
    leader().Signal(SIGKILL);
    leader().ExitCode();
    WaitForNext(before);
  }
  EndUndisturbed(workers);
}

TEST_F(FailoverTest, SigtermHandsOver) {
  StartJob();
  const auto workers = Workers();
  const auto before = rendezvous_->AllReigns();
  Program& old = leader();
  old.Signal(SIGTERM);
  EXPECT_EQ(old.ExitCode(), 0);
  EXPECT_THAT(old.err(), HasSubstr("has handed over"));
  WaitForNext(before);
  EndUndisturbed(workers);
}

// It wakes up in a term that is over, executes itself again, and is as good as a new one.
TEST_F(FailoverTest, AFrozenLeaderIsReplacedAndStandsByAgain) {
  StartJob();
  const auto workers = Workers();
  const auto before = rendezvous_->AllReigns();
  Program& old = leader();
  const pid_t pid = old.pid();
  old.Signal(SIGSTOP);
  WaitForNext(before);
  old.Signal(SIGCONT);
  ASSERT_TRUE(old.WaitForErr("stands by again"));
  ASSERT_TRUE(old.WaitForErr(" leads, term "));
  EXPECT_EQ(old.pid(), pid);
  EndUndisturbed(workers);
}

// A second signal does not wait for a successor.
TEST_F(FailoverTest, ASecondSignalEndsAtOnce) {
  for (int member = 0; member < etcd_->size(); ++member) etcd_->Freeze(member);
  leader().Signal(SIGTERM);
  ASSERT_TRUE(leader().WaitForErr("hands over"));
  leader().Signal(SIGTERM);
  EXPECT_EQ(leader().ExitCode(), 128 + SIGTERM);
  for (int member = 0; member < etcd_->size(); ++member) etcd_->Thaw(member);
}

TEST_F(FailoverTest, OneLostMemberOfEtcdDisturbsNothing) {
  StartJob();
  const auto workers = Workers();
  etcd_->Kill(etcd_->WaitForLeader());
  OutliveTheLease();
  EndUndisturbed(workers);
  EXPECT_THAT(leader().err(), Not(HasSubstr("has not reached etcd")));
}

// Training goes on for the validity, then workers end by their leases. With etcd, all comes back.
TEST_F(FailoverTest, AQuorumThatIsLostEndsWorkersAfterTheValidityAndComesBack) {
  StartJob(1);
  const auto workers = Workers();
  const auto lost = std::chrono::steady_clock::now();
  etcd_->Freeze(0);
  etcd_->Freeze(1);
  // Not synchronization: that nothing happens within the validity is what is tested.
  std::this_thread::sleep_for(seconds(3));
  EXPECT_EQ(Workers(), workers);
  for (int node = 0; node < 2; ++node) ASSERT_TRUE(job_.node(node).WaitForErr("fenced:"));
  EXPECT_GT(std::chrono::steady_clock::now() - lost, seconds(5));
  EXPECT_THAT(leader().err(), HasSubstr("has not reached etcd"));
  etcd_->Thaw(0);
  etcd_->Thaw(1);
  for (int node = 0; node < 2; ++node) ASSERT_TRUE(job_.node(node).WaitForOut("up 1"));
  std::ofstream(go()) << "";
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(job_.node(node).ExitCode(), 0) << job_.node(node).err();
  }
}

}  // namespace failover_test
}  // namespace ddprun
