#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/machine/nodes/quarantine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {
namespace late_admission_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const NodeSpec kNode{"n1", "10.0.0.1", 2};

Duration DelayOf(const LateAdmission& admission, const NodeSpec& node) {
  const auto wait = admission.WaitOf(node);
  return wait ? wait->delay : Duration{};
}

TEST(LateAdmissionTest, FromTheSecondLossInARowTheDelayDoublesToAMinute) {
  LateAdmission admission;
  admission.OnLost(kNode, seconds(3));
  EXPECT_EQ(DelayOf(admission, kNode), Duration{});
  for (const int expected : {1, 2, 4, 8, 16, 32, 60, 60}) {
    admission.OnLost(kNode, seconds(3));
    EXPECT_EQ(DelayOf(admission, kNode), seconds(expected));
  }
  EXPECT_EQ(admission.WaitOf(kNode)->reason, "it was gone soon after joining, 9 times in a row");
}

TEST(LateAdmissionTest, OneThatStayedForLongBeginsAnew) {
  LateAdmission admission;
  for (int i = 0; i < 5; ++i) admission.OnLost(kNode, seconds(3));
  admission.OnLost(kNode, hours(1));
  admission.OnLost(kNode, seconds(3));
  EXPECT_EQ(DelayOf(admission, kNode), Duration{});
}

TEST(LateAdmissionTest, ANodeIsItsHostNameTogetherWithItsAddress) {
  LateAdmission admission;
  for (int i = 0; i < 2; ++i) admission.OnLost(kNode, seconds(3));
  EXPECT_EQ(DelayOf(admission, {"n1", "10.0.0.2", 2}), Duration{});
  EXPECT_EQ(DelayOf(admission, {"n2", "10.0.0.1", 2}), Duration{});
}

TEST(LateAdmissionTest, WhatItRemembersIsBounded) {
  LateAdmission admission;
  for (int i = 0; i < 2; ++i) admission.OnLost(kNode, seconds(3));
  for (std::size_t i = 0; i < LateAdmission::kMaxLostNodes; ++i) {
    admission.OnLost({absl::StrCat("m", i), "10.0.0.9", 1}, seconds(3));
  }
  EXPECT_EQ(DelayOf(admission, kNode), Duration{});
}

// ---- in a job ----

// b joins, the group starts with it, and b is killed. a continues alone.
void LoseB(JobMachineDriver& job, Duration after) {
  job.Join('b');
  job.Drain('a');
  job.Prepare('a');
  job.Prepare('b');
  job.Advance(after);
  job.Beat('a');
  job.Gone('b');
  job.Drain('a');
  job.Prepare('a');
  job.Clear();
}

class LateAdmissionJobTest : public testing::Test {
 protected:
  LateAdmissionJobTest() : job_(Spec()) {
    job_.Join('a');
    job_.Advance({});  // the last call is over
    job_.Prepare('a');
  }

  static JobSpec Spec() {
    JobSpec spec = JobMachineDriver::Spec(1, 2);
    spec.last_call = Duration{};
    return spec;
  }

  std::string StateOfB() {
    for (const NodeStatus& node : job_.machine().Status(job_.now()).nodes) {
      if (node.host == "b") return node.state;
    }
    return "not there";
  }

  JobMachineDriver job_;
};

TEST_F(LateAdmissionJobTest, TheOthersGoOnWithoutTheNodeUntilItIsAdmitted) {
  LoseB(job_, milliseconds(100));
  LoseB(job_, milliseconds(100));
  job_.TakeNotes();
  job_.Join('b');
  EXPECT_THAT(job_.TakeNotes(), Contains("b (10.0.0.b) is admitted in 1 s: it was gone soon after "
                                         "joining, 2 times in a row"));
  EXPECT_EQ(StateOfB(), "held back: it was gone soon after joining, 2 times in a row");
  job_.Clear();
  job_.Advance(milliseconds(999));
  EXPECT_EQ(job_.machine().state(), JobState::kRunning);
  EXPECT_THAT(job_.Take(), IsEmpty());
  job_.Advance(milliseconds(1));
  EXPECT_THAT(job_.TakeText(), HasSubstr("a<-g4 Stop")) << "it is taken in";
}

TEST_F(LateAdmissionJobTest, ANodeThatStayedIsAdmittedAtOnce) {
  LoseB(job_, milliseconds(100));
  job_.Join('b');
  job_.Drain('a');
  job_.Prepare('a');
  job_.Prepare('b');
  for (int i = 0; i < 61; ++i) {
    job_.Advance(seconds(1));
    job_.Beat('a');
    job_.Beat('b');
  }
  job_.Gone('b');
  job_.Drain('a');
  job_.Prepare('a');
  job_.Join('b');
  EXPECT_EQ(StateOfB(), "waiting");
  EXPECT_EQ(job_.machine().state(), JobState::kStopping) << "to take it in";
}

// Each such newcomer stops the workers of the other nodes.
TEST_F(LateAdmissionJobTest, ANewcomerThatIsGoneBeforeTheGroupFormsIsAdmittedLaterToo) {
  for (int i = 0; i < 2; ++i) {
    job_.Join('b');
    EXPECT_EQ(job_.machine().state(), JobState::kStopping) << "to take it in";
    job_.Gone('b');
    job_.Drain('a');
    job_.Prepare('a');
  }
  job_.Join('b');
  EXPECT_EQ(StateOfB(), "held back: it was gone soon after joining, 2 times in a row");
  EXPECT_EQ(job_.machine().state(), JobState::kRunning);
}

TEST_F(LateAdmissionJobTest, SoIsOneThatLeavesByItself) {
  for (int i = 0; i < 2; ++i) {
    job_.Join('b');
    job_.Drain('a');
    job_.Prepare('a');
    job_.Prepare('b');
    job_.Leave('b');
    job_.Drain('a');
    job_.Prepare('a');
  }
  job_.Join('b');
  EXPECT_EQ(StateOfB(), "held back: it was gone soon after joining, 2 times in a row");
}

TEST_F(LateAdmissionJobTest, ASpareThatGoesCostsNobodyAnything) {
  JobMachineDriver job(JobMachineDriver::Spec(1, 1));
  job.Join('a');
  job.Prepare('a');
  for (int i = 0; i < 3; ++i) {
    job.Join('b');
    job.Gone('b');
  }
  job.Join('b');
  job.TakeNotes();
  EXPECT_EQ(job.machine().Status(job.now()).nodes.back().state, "spare");
}

TEST_F(LateAdmissionJobTest, WhereItIsNeededTheOthersWaitAndSayForWhom) {
  JobMachineDriver job(JobMachineDriver::Spec(2, 2));
  job.Join('a');
  for (int i = 0; i < 2; ++i) {
    job.Join('b');
    job.Prepare('a');
    job.Prepare('b');
    job.Gone('b');
    job.Drain('a');
  }
  job.Join('b');
  EXPECT_EQ(job.machine().state(), JobState::kGathering);
  EXPECT_THAT(job.machine().Status(job.now()).reason,
              HasSubstr("admitted later: b (it was gone soon after joining, 2 times in a row)"));
  job.Clear();
  job.Advance(seconds(1));
  EXPECT_THAT(job.TakeText(), HasSubstr("b<-g2 Assignment"));
}

TEST_F(LateAdmissionJobTest, TheMembershipMayBeLimitedTo) {
  JobSpec spec = JobMachineDriver::Spec(1, 2);
  spec.max_membership_changes = 1;
  JobMachineDriver job(spec);
  job.RunTwoNodes();
  job.Gone('b');
  job.Drain('a');
  job.Prepare('a');
  job.Join('b');
  job.Drain('a');
  job.Prepare('a');
  job.Prepare('b');
  job.Gone('b');
  job.Drain('a');
  EXPECT_EQ(job.last_finished().outcome, Outcome::kFailed);
  EXPECT_EQ(job.last_finished().exit_code, 69);
  EXPECT_EQ(job.last_finished().reason,
            "no membership change is left (1 of 1 used: restart.max_membership_changes)");
}

}  // namespace late_admission_test
}  // namespace ddprun
