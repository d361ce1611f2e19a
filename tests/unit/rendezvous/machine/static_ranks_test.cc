// Tests jobs whose agents request node ranks, with a given master (torchrun's static mode).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace static_ranks_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StaticRanksTest : public testing::Test {
 protected:
  static JobSpec Spec() {
    JobSpec spec = JobMachineDriver::Spec(2, 2);
    spec.master_addr = "n0";
    spec.master_port = 29500;
    return spec;
  }
  // Joins as `agent`, which requests `rank`.
  void Join(char agent, std::optional<int> rank, const JobSpec& spec = Spec()) {
    ddprun::Join join;
    join.job = spec;
    join.node.host = std::string(1, agent);
    join.node.address = "10.0.0." + join.node.host;
    join.node.worker_count = 2;
    if (rank) join.node.requested_rank = NodeRank{*rank};
    join.offered_port = 1000 + agent;
    job_.Receive(agent, join);
  }
  void RunAsRanksOneAndZero() {
    Join('a', 1);
    Join('b', 0);
    job_.Prepare('a');
    job_.Prepare('b');
    job_.Clear();
  }

  JobMachineDriver job_{Spec()};
};

TEST_F(StaticRanksTest, RanksFollowTheRequestsAndTheMasterIsTheGivenOne) {
  Join('a', 1);
  job_.Clear();
  Join('b', 0);
  EXPECT_THAT(job_.Take(),
              ElementsAre("b<-g0 Assignment node 0/2 first 0 world 4 n0:29500 restart 0/0",
                          "a<-g0 Assignment node 1/2 first 2 world 4 n0:29500 restart 0/0"));
}

TEST_F(StaticRanksTest, APortAloneGoesWithTheAddressOfNodeRankZero) {
  JobSpec spec = Spec();
  spec.master_addr.clear();
  Join('a', 1, spec);
  Join('b', 0, spec);
  EXPECT_THAT(job_.TakeText(), HasSubstr("world 4 10.0.0.b:29500"));
}

TEST_F(StaticRanksTest, TheSecondThatAsksForARankIsRefusedAndTheJobGoesOn) {
  Join('a', 0);
  job_.Clear();
  Join('b', 0);
  EXPECT_THAT(job_.Take(), ElementsAre("b<-g-1 Refused: node rank 0 is taken by a: give every node "
                                       "a --node-rank of its own"));
  Join('c', 1);
  EXPECT_THAT(job_.TakeText(), HasSubstr("c<-g0 Assignment node 1/2"));
}

TEST_F(StaticRanksTest, AnAgentThatAsksForNoRankIsRefusedWhereOthersDoAndTheOtherWayRound) {
  Join('a', 0);
  Join('b', {});
  EXPECT_THAT(job_.TakeText(), HasSubstr("does not ask for a node rank, and the others do"));
  job_.Break('a');
  JobMachineDriver other(Spec());
  other.Join('a');
  other.Clear();
  ddprun::Join join{Spec(), {"b", "10.0.0.b", 2, NodeRank{1}}, 1};
  other.Receive('b', join);
  EXPECT_THAT(other.TakeText(), HasSubstr("asks for a node rank, and the others do not"));
}

TEST_F(StaticRanksTest, ARankThatTheJobDoesNotHaveIsRefused) {
  Join('a', 0);
  Join('b', 2);
  EXPECT_THAT(job_.TakeText(),
              HasSubstr("Refused: --node-rank is 2, and a job of 2 nodes has 0 to 1"));
}

TEST_F(StaticRanksTest, AnotherMasterIsAnotherCommandLine) {
  Join('a', 0);
  JobSpec spec = Spec();
  spec.master_port = 29501;
  Join('b', 1, spec);
  EXPECT_THAT(job_.TakeText(),
              HasSubstr("--master-addr and --master-port is n0:29501 here, but the job began with "
                        "n0:29500"));
}

TEST_F(StaticRanksTest, TheSuccessorOfALostNodeTakesItsRank) {
  RunAsRanksOneAndZero();
  job_.Break('b');  // its workers may run until the lease is over
  Join('c', 0);
  EXPECT_THAT(job_.TakeText(), testing::Not(HasSubstr("Refused")));
  for (int second = 0; second < 4; ++second) {
    job_.Beat('a');
    job_.Beat('c');
    job_.Advance(std::chrono::seconds(1));
  }
  job_.Drain('a');
  const std::string text = job_.TakeText();
  EXPECT_THAT(text, HasSubstr("c<-g1 Assignment node 0/2 first 0"));
  EXPECT_THAT(text, HasSubstr("a<-g1 Assignment node 1/2 first 2"));
}

// As in torchelastic, role ranks follow the node ranks; nodes of other roles in between do not
// count.
TEST(RoleRanksTest, AreCountedWithinARoleInTheOrderOfNodeRanks) {
  JobMachineDriver job(JobMachineDriver::Spec(3, 3));
  job.set_workers(2);
  job.JoinWith('a', {"trainer", "train.py"});
  job.set_workers(3);
  job.JoinWith('b', {"evaluator", "evaluate.py"});
  job.set_workers(4);
  job.JoinWith('c', {"trainer", "train.py"});
  std::vector<RolePlace> places;
  for (const Assignment& assignment : job.TakeAssignments()) places.push_back(assignment.role);
  EXPECT_THAT(places,
              ElementsAre(RolePlace{Rank{0}, 6}, RolePlace{Rank{0}, 3}, RolePlace{Rank{2}, 6}));
}

TEST(RoleRanksTest, AreTheSameForANodeThatMissedItsAssignmentBeforeTheDaemonWasStartedAgain) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.JoinWith('a', {"trainer", "train.py"});
  job.JoinWith('b', {"evaluator", "evaluate.py"});
  job.TakeAssignments();
  job.RestartDaemon(std::chrono::seconds(1));
  job.Rejoin('b', -1, /*workers_running=*/false);
  ASSERT_THAT(job.TakeAssignments(),
              ElementsAre(testing::Field(&Assignment::role, RolePlace{Rank{0}, 2})));
}

}  // namespace static_ranks_test
}  // namespace ddprun
