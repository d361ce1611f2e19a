// Faults of etcd itself: a restore from a snapshot, a full database, compaction, a hanging disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/integration/failover_fixture.h"
#include "tests/support/capabilities.h"

namespace ddprun {
namespace etcd_faults_test {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

class EtcdFaultsTest : public FailoverFixture {
 protected:
  void SetUp() override { DDPRUN_NEEDS(MissingForEtcd()); }

  nlohmann::json Endpoint(int member) const {
    const auto status = etcd_->Ctl({"endpoint", "status", "-w", "json"});
    EXPECT_TRUE(status.has_value());
    return nlohmann::json::parse(status.value_or("[]")).at(member);
  }
  std::string Revision() const {
    return std::to_string(Endpoint(0)["Status"]["header"]["revision"].get<std::int64_t>());
  }
  // Waits until `ddprun status` shows this text.
  bool WaitForStatus(const std::string& text) const {
    const auto until = std::chrono::steady_clock::now() + kHang;
    do {
      Program status({DdprunPath(), "status", "--rdzv-endpoint", rendezvous_->endpoints()});
      if (status.ExitCode() == 0 && status.out().find(text) != std::string::npos) return true;
    } while (std::chrono::steady_clock::now() < until);
    return false;
  }
  // Kills every rendezvous, restores etcd, and starts the rendezvous again.
  void RestoreAndJoinAnew(const std::string& snapshot) {
    const auto old_workers = Workers();
    for (int i = 0; i < 3; ++i) {
      (*rendezvous_)[i].Signal(SIGKILL);
      (*rendezvous_)[i].ExitCode();
    }
    ASSERT_TRUE(etcd_->Restore(snapshot));
    for (int i = 0; i < 3; ++i) rendezvous_->Start(i);
    for (int node = 0; node < 2; ++node) {
      const Program& agent = job_.node(node);
      ASSERT_TRUE(agent.WaitForErr("joins anew, under term")) << agent.err();
    }
    EXPECT_TRUE(WaitForOtherWorkers(old_workers));
  }
  bool WaitForOtherWorkers(const std::array<pid_t, 2>& old_workers) const {
    const auto until = std::chrono::steady_clock::now() + kHang;
    while (std::chrono::steady_clock::now() < until) {
      const auto workers = Workers();
      if (workers[0] != 0 && workers[1] != 0 && workers[0] != old_workers[0] &&
          workers[1] != old_workers[1]) {
        return true;
      }
      std::this_thread::sleep_for(milliseconds(20));  // /proc reports no new processes
    }
    return false;
  }
  // Each write leaves a revision of 100 KB.
  void Fill() {
    int tries = 0;
    while (etcd_->Ctl({"put", "/other", std::string(100'000, 'x')}) && ++tries < 1000) continue;
    EXPECT_THAT(etcd_->Ctl({"alarm", "list"}).value_or(""), HasSubstr("NOSPACE"));
  }
  void MakeRoom() {
    ASSERT_TRUE(etcd_->Ctl({"compact", Revision()}));
    ASSERT_TRUE(etcd_->Ctl({"defrag"}));
    ASSERT_TRUE(etcd_->Ctl({"alarm", "disarm"}));
  }
};

// docs/ha.md, "Restoring etcd from a snapshot". The snapshot was taken before the job started.
TEST_F(EtcdFaultsTest, AfterARestoreAgentsWaitOutTheirLeaseAndJoinAnew) {
  Begin();
  const std::string snapshot = folder_ / "backup.db";
  ASSERT_TRUE(etcd_->SaveSnapshot(snapshot));
  StartJob();
  RestoreAndJoinAnew(snapshot);
  EndTheJob();
}

// Before the loss and after it, the generation is 0: no restart is allowed, and none was used.
TEST_F(EtcdFaultsTest, AfterALossOfAllDataAgentsBringWhatTheyHold) {
  Begin();
  StartJob();
  RestoreAndJoinAnew("");
  EndTheJob();
}

// A leader renews by reads, so it stays the leader. Writes to etcd have to wait, and the leader
// says so.
TEST_F(EtcdFaultsTest, AFullEtcdKeepsTheJobAndWaitsForRoom) {
  Begin({{"--quota-backend-bytes", "2000000"}, ""});
  StartJob(1);
  const auto workers = Workers();
  Fill();
  OutliveTheLease();
  EXPECT_EQ(Workers(), workers);
  kill(workers[1], SIGKILL);  // a new generation has to be written
  EXPECT_TRUE(leader().WaitForErr("the job records cannot be written")) << leader().err();
  EXPECT_THAT(leader().err(), HasSubstr("NOSPACE"));
  EXPECT_TRUE(WaitForStatus("etcd takes no change: "));
  for (int node = 0; node < 2; ++node) EXPECT_THAT(job_.node(node).out(), Not(HasSubstr("up 1")));
  MakeRoom();
  for (int node = 0; node < 2; ++node) ASSERT_TRUE(job_.node(node).WaitForOut("up 1"));
  EXPECT_THAT(leader().err(), HasSubstr("the job records can be written again"));
  EndTheJob();
}

// A takeover also needs a write: while etcd is full, no other rendezvous can become the leader.
TEST_F(EtcdFaultsTest, AFullEtcdHasItsNextLeaderOnceThereIsRoom) {
  Begin({{"--quota-backend-bytes", "2000000"}, ""});
  StartJob(1);
  Fill();
  const auto before = rendezvous_->Reigns();
  leader().Signal(SIGKILL);
  leader().ExitCode();
  const int standby = leader_ == 0 ? 1 : 0;
  EXPECT_TRUE((*rendezvous_)[standby].WaitForErr("cannot lead: etcd does not take the leader key"))
      << (*rendezvous_)[standby].err();
  MakeRoom();
  leader_ = rendezvous_->WaitForLeader(before);
  ASSERT_GE(leader_, 0);
  EndTheJob();
}

// Watches read the newest revision, so the compaction of older revisions does not matter.
TEST_F(EtcdFaultsTest, ACompactionIsNotNoticed) {
  Begin();
  StartJob();
  const auto workers = Workers();
  for (int times = 0; times < 20; ++times) {
    ASSERT_TRUE(etcd_->Ctl({"put", "/other", std::to_string(times)}));
    ASSERT_TRUE(etcd_->Ctl({"compact", Revision()}));
  }
  ASSERT_TRUE(etcd_->Ctl({"defrag"}));
  const auto before = rendezvous_->Reigns();
  leader().Signal(SIGKILL);
  leader().ExitCode();
  WaitForNext(before);
  ASSERT_TRUE(etcd_->Ctl({"compact", Revision()}));
  EndUndisturbed(workers);
}

// The whole of etcd is frozen, but for less than the leader's validity.
TEST_F(EtcdFaultsTest, AStallShorterThanTheValidityIsSaidAndDisturbsNothing) {
  Begin();
  StartJob();
  const auto workers = Workers();
  for (int member = 0; member < 3; ++member) etcd_->Freeze(member);
  EXPECT_TRUE(leader().WaitForErr("etcd does not answer")) << leader().err();
  EXPECT_TRUE(leader().WaitForErr("acknowledges for another")) << leader().err();
  for (int member = 0; member < 3; ++member) etcd_->Thaw(member);
  EXPECT_TRUE(leader().WaitForErr("etcd answers again")) << leader().err();
  EndUndisturbed(workers);
}

}  // namespace etcd_faults_test
}  // namespace ddprun
