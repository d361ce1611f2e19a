// Three rendezvous over a real etcd of three members, and a job of two nodes. No worker restarts,
// whichever process is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/integration/failover_fixture.h"
#include "tests/support/capabilities.h"
#include "tests/support/sanitizer.h"

namespace ddprun {
namespace failover_test {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class FailoverTest : public FailoverFixture {
 protected:
  void SetUp() override {
    DDPRUN_NEEDS(MissingForEtcd());
    Begin();
  }
};

TEST_F(FailoverTest, AKilledLeaderRestartsNoWorker) {
  StartJob();
  const auto workers = Workers();
  for (int times = 0; times < 2; ++times) {
    const auto before = rendezvous_->Reigns();
    leader().Signal(SIGKILL);
    leader().ExitCode();
    WaitForNext(before);
  }
  EndUndisturbed(workers);
}

TEST_F(FailoverTest, SigtermHandsOver) {
  StartJob();
  const auto workers = Workers();
  const auto before = rendezvous_->Reigns();
  Program& old = leader();
  old.Signal(SIGTERM);
  EXPECT_EQ(old.ExitCode(), 0);
  EXPECT_THAT(old.err(), HasSubstr("has handed over"));
  WaitForNext(before);
  EndUndisturbed(workers);
}

// The frozen leader wakes up after the end of its term, executes itself again, and works like a new
// rendezvous.
TEST_F(FailoverTest, AFrozenLeaderIsReplacedAndStandsByAgain) {
  StartJob();
  const auto workers = Workers();
  const auto before = rendezvous_->Reigns();
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

// After a second signal the leader does not wait for a successor.
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

// Training continues for the validity; then the workers end by their leases. When etcd is back, the
// job comes back, too.
TEST_F(FailoverTest, AQuorumThatIsLostEndsWorkersAfterTheValidityAndComesBack) {
  StartJob(1);
  const auto workers = Workers();
  const auto lost = std::chrono::steady_clock::now();
  etcd_->Freeze(0);
  etcd_->Freeze(1);
  // Not synchronization: the test is that nothing happens within the validity.
  std::this_thread::sleep_for(seconds(3));
  EXPECT_EQ(Workers(), workers);
  for (int node = 0; node < 2; ++node) ASSERT_TRUE(job_.node(node).WaitForErr("fenced:"));
  EXPECT_GT(std::chrono::steady_clock::now() - lost, seconds(5));
  EXPECT_THAT(leader().err(), HasSubstr("has not reached etcd"));
  etcd_->Thaw(0);
  etcd_->Thaw(1);
  // A standby may take over before the old leader can renew, and may begin a generation that never
  // starts.
  for (int node = 0; node < 2; ++node) {
    ASSERT_TRUE(job_.node(node).WaitForOut("up again")) << job_.node(node).err();
  }
  EndTheJob();
}

}  // namespace failover_test
}  // namespace ddprun
