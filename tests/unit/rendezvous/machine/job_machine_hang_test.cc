// Tests JobMachine in a hang: which rank it names, and whether it restarts the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"
#include "tests/unit/rendezvous/machine/job_machine_hang_job.h"

namespace ddprun {
namespace job_machine_hang_test {

using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST_F(JobMachineHangTest, NothingHappensBeforeTheLimit) {
  Run(JobSpec::kRestartHang);
  EXPECT_THAT(StandStill(9), Not(Contains(HasSubstr("hangs"))));
}

TEST_F(JobMachineHangTest, EveryNodeReadsWhichRankHangsAndTheJobStartsAgain) {
  Run(JobSpec::kRestartHang);
  const auto said = StandStill(12);
  for (const char* const node : {"a", "b"}) {
    EXPECT_THAT(said, Contains(AllOf(HasSubstr(std::string(node) + "<-"),
                                     HasSubstr("no rank has moved for 10.0 s (limit 10 s)"))));
    EXPECT_THAT(said, Contains(AllOf(HasSubstr(std::string(node) + "<-"),
                                     HasSubstr("rank 3 on b (pid 201) is stopped"))));
    EXPECT_THAT(said, Contains(HasSubstr(std::string(node) + "<-g0 Stop")));
  }
  job_->Drain('a');
  job_->Drain('b');
  EXPECT_EQ(job_->machine().generation(), Generation{1});
  EXPECT_EQ(job_->machine().restarts_used(), 1) << "a hang spends a restart";
  EXPECT_EQ(job_->machine().Status({}).last_cause->kind, RootCause::Kind::kHung);
}

TEST_F(JobMachineHangTest, WithReportTheWorkersAreLeftAloneAndItsEndIsSaidToo) {
  Run(JobSpec::kReportHang);
  const auto said = StandStill(200);
  EXPECT_THAT(said, Contains(HasSubstr("hangs")));
  EXPECT_THAT(said, Not(Contains(HasSubstr("Stop"))));
  EXPECT_EQ(std::count_if(said.begin(), said.end(),
                          [](const std::string& line) {
                            return line.find("job hangs: no rank") != std::string::npos;
                          }),
            2)
      << "once on each node";
  Second(true);
  EXPECT_THAT(job_->Take(), Contains(HasSubstr("moves again")));
}

// The cases of the default: `--on-hang` is not given.
TEST_F(JobMachineHangTest, AProgramThatNamesNoPhasesIsOnlyReported) {
  Run(JobSpec::kChooseOnHang, "", /*checkpoint=*/true);
  EXPECT_THAT(StandStill(150),
              AllOf(Contains(HasSubstr("names no phases")), Not(Contains(HasSubstr("Stop")))));
}
TEST_F(JobMachineHangTest, OneThatHasSavedNothingIsOnlyReported) {
  Run(JobSpec::kChooseOnHang, "restore");
  EXPECT_THAT(StandStill(150), AllOf(Contains(HasSubstr("no state was saved yet")),
                                     Not(Contains(HasSubstr("Stop")))));
}
// The culprit is runnable, but idle: it makes no more progress than a stopped one.
TEST_F(JobMachineHangTest, OneThatNamesItsPhasesAndHasSavedStartsAgain) {
  culprit_ = ProcessState::kRunnable;
  Run(JobSpec::kChooseOnHang, "restore", /*checkpoint=*/true);
  EXPECT_THAT(StandStill(12), Contains(HasSubstr("Stop")));
}
// A restart loses nothing. Seen red when a restart needed a saved state.
TEST_F(JobMachineHangTest, OneThatNamesItsPhasesAndHasMadeNoStepYetStartsAgain) {
  JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
  spec.hang_startup_timeout = seconds(10);
  job_.emplace(spec, options_);
  job_->RunTwoNodes();
  tells_steps_ = steps_ = false;
  named_ = phase_ = "restore";
  Second(/*moves=*/true);
  job_->Clear();
  const auto said = StandStill(12);
  EXPECT_THAT(said, Contains(HasSubstr("before the first step")));
  EXPECT_THAT(said, Contains(HasSubstr("Stop")));
}
TEST_F(JobMachineHangTest, ABusyCulpritIsReportedFirstAndEndedMuchLater) {
  Run(JobSpec::kChooseOnHang, "restore", /*checkpoint=*/true);
  culprit_ = ProcessState::kRunnable;
  busy_ = true;
  EXPECT_THAT(StandStill(90), AllOf(Contains(HasSubstr("uses the CPU or does I/O")),
                                    Not(Contains(HasSubstr("Stop")))));
  EXPECT_THAT(StandStill(15), Contains(HasSubstr("Stop")));
}
// The culprit computes at the verdict, and then becomes idle. Seen red when the time of its end was
// fixed at the verdict.
TEST_F(JobMachineHangTest, ABusyCulpritIsEndedOnceItDoesNothingAnyMore) {
  Run(JobSpec::kChooseOnHang, "restore", /*checkpoint=*/true);
  culprit_ = ProcessState::kRunnable;
  busy_ = true;
  EXPECT_THAT(StandStill(20), Contains(HasSubstr("once it has done neither for 10 s")));
  busy_ = false;
  debugged_ = true;
  EXPECT_THAT(StandStill(10), Not(Contains(HasSubstr("Stop")))) << "or a debugger holds it";
  debugged_ = false;
  EXPECT_THAT(StandStill(3), Contains(HasSubstr("Stop")));
}
// Seen red when the time of its end was fixed at the verdict.
TEST_F(JobMachineHangTest, ABusyCulpritThatADebuggerHoldsIsNotEnded) {
  Run(JobSpec::kChooseOnHang, "restore", /*checkpoint=*/true);
  culprit_ = ProcessState::kRunnable;
  busy_ = true;
  EXPECT_THAT(StandStill(50), Contains(HasSubstr("uses the CPU or does I/O")));
  debugged_ = true;
  EXPECT_THAT(StandStill(200), Not(Contains(HasSubstr("Stop"))));
  debugged_ = false;
  EXPECT_THAT(StandStill(90), Not(Contains(HasSubstr("Stop"))));
  EXPECT_THAT(StandStill(15), Contains(HasSubstr("Stop")));
}
// Seen red when only a reported step number counted as a step.
TEST_F(JobMachineHangTest, AProgramThatReportsNoStepsAndHasSavedNothingIsOnlyReported) {
  tells_steps_ = false;
  Run(JobSpec::kChooseOnHang, "restore");
  EXPECT_THAT(StandStill(20), AllOf(Contains(HasSubstr("no state was saved yet")),
                                    Contains(HasSubstr("(limit 10 s) | rank 3")),
                                    Not(Contains(HasSubstr("Stop")))));
}
TEST_F(JobMachineHangTest, AfterARankHasEndedTheOthersAreLeftAlone) {
  Run(JobSpec::kRestartHang);
  job_->Exit('a', 0, 0, {});
  EXPECT_THAT(StandStill(90), Not(Contains(HasSubstr("hangs"))));
  EXPECT_THAT(StandStill(20),
              AllOf(Contains(HasSubstr("hangs")), Not(Contains(HasSubstr("Stop")))));
}

// The ended rank skipped the collective in which the others wait. Seen red when the verdict did not
// mention it.
TEST_F(JobMachineHangTest, ARankThatHasEndedIsInTheVerdictOnTheOthers) {
  Run(JobSpec::kRestartHang);
  culprit_ = ProcessState::kRunnable;
  StandStill(5);
  job_->Exit('a', 0, 0, {});
  EXPECT_THAT(StandStill(100),
              Contains(AllOf(HasSubstr("all ranks wait in all_reduce 9"),
                             HasSubstr("network or library; rank 0 has ended with 0 95.0 s ago"))));
}

TEST_F(JobMachineHangTest, OfRanksThatHaveEndedTheLastOneIsTimed) {
  Run(JobSpec::kRestartHang);
  job_->Exit('a', 0, 0, {});
  job_->Exit('a', 0, 1, {});
  job_->Advance(seconds(1));
  EXPECT_THAT(StandStill(110), Contains(HasSubstr("; ranks 0-1 have ended with 0, the last 1")));
}

TEST_F(JobMachineHangTest, WhereHangsAreNotWatchedNothingIsSaid) {
  JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
  spec.on_hang = JobSpec::kIgnoreHang;
  spec.hang_startup_timeout = seconds(10);
  Run(spec, "", false);
  EXPECT_THAT(StandStill(1000), Not(Contains(HasSubstr("hangs"))));
}

// The ranks of a silent node may move.
TEST_F(JobMachineHangTest, AHangIsNotCalledWhileANodeIsSilent) {
  JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
  spec.hang_timeout = seconds(10);
  spec.lease = seconds(60);
  spec.on_hang = JobSpec::kRestartHang;
  Run(spec, "", false);
  StandStill(5);
  silent_ = 'b';
  EXPECT_THAT(StandStill(20), Not(Contains(HasSubstr("hangs"))));
  silent_ = 0;
  EXPECT_THAT(StandStill(2), Contains(HasSubstr("hangs")));
}

// ---- silent ranks ----

// Two nodes with two workers each. No rank has made a step. Ranks in `silent_` have reported
// nothing; the others are in init().
class JobMachineSilentTest : public testing::Test {
 protected:
  explicit JobMachineSilentTest(Duration startup_limit = seconds(20)) : job_(Spec(startup_limit)) {
    job_.RunTwoNodes();
  }

  static JobSpec Spec(Duration startup_limit) {
    JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
    spec.hang_timeout = seconds(10);
    spec.hang_startup_timeout = startup_limit;
    spec.on_hang = JobSpec::kRestartHang;
    spec.lease = seconds(60);
    return spec;
  }
  std::vector<std::string> Wait(int for_seconds) {
    for (int i = 0; i < for_seconds; ++i) {
      job_.Advance(seconds(1));
      still_ += seconds(1);
      for (const char node : {'a', 'b'}) {
        if (node != unheard_) job_.Receive(node, Beat(node == 'a' ? 0 : 2));
      }
    }
    return job_.Take();
  }
  Heartbeat Beat(int first_rank) const {
    Heartbeat heartbeat;
    heartbeat.step = step_;
    NodeProgress& progress = heartbeat.progress.emplace();
    for (int i = 0; i < 2; ++i) {
      StillWorker worker{LocalRank{i}, 100 + first_rank + i, still_};
      if (silent_.contains(first_rank + i)) {
        progress.silent_workers.push_back(worker);
        continue;
      }
      worker.phase = "init";
      progress.phases = {"init"};
      progress.still = still_;
      ++progress.workers;
      progress.still_workers.push_back(worker);
    }
    return heartbeat;
  }

  JobMachineDriver job_;
  std::set<int> silent_ = {3};
  std::optional<std::int64_t> step_;
  Duration still_{};
  char unheard_ = 0;
};

TEST_F(JobMachineSilentTest, ARankThatNeverReachesInitIsNamedAndTheJobStartsAgain) {
  EXPECT_THAT(Wait(19), Not(Contains(HasSubstr("hangs")))) << "--hang-startup-timeout";
  const auto said = Wait(2);
  for (const std::string node : {"a", "b"}) {
    EXPECT_THAT(said, Contains(AllOf(HasSubstr(node + "<-"),
                                     HasSubstr("3 of 4 ranks are in init(); missing 3 on b: rank 3 "
                                               "(pid 103) started 19.0 s ago"))));
    EXPECT_THAT(said, Contains(node + "<-g0 Stop"));
  }
  job_.Drain('a');
  job_.Drain('b');
  EXPECT_EQ(job_.machine().generation(), Generation{1});
  const RootCause cause = *job_.machine().Status({}).last_cause;
  EXPECT_EQ(cause.kind, RootCause::Kind::kHung);
  EXPECT_EQ(cause.failure.exit.rank, Rank{3});
  EXPECT_EQ(cause.failure.exit.pid, 103);
}

TEST_F(JobMachineSilentTest, SoAreThoseOfANodeWhereNobodyTells) {
  silent_ = {2, 3};
  EXPECT_THAT(Wait(21),
              Contains(HasSubstr("2 of 4 ranks are in init(); missing 2-3 on b: rank 2")));
}

TEST_F(JobMachineSilentTest, WhereNobodyTellsAnythingNothingIsJudged) {
  silent_ = {0, 1, 2, 3};
  EXPECT_THAT(Wait(1000), Not(Contains(HasSubstr("hangs"))));
}

// All ranks still wait for the same file server. Seen red when only reporting ranks were judged.
TEST_F(JobMachineSilentTest, RanksThatHaveToldBeforeARestartAreExpectedToTellAgain) {
  EXPECT_THAT(Wait(21), Contains(HasSubstr("Stop")));
  job_.Drain('a');
  job_.Drain('b');
  job_.Prepare('a');
  job_.Prepare('b');
  ASSERT_EQ(job_.machine().generation(), Generation{1});
  silent_ = {0, 1, 2, 3};
  still_ = Duration{};
  job_.Take();
  EXPECT_THAT(Wait(19), Not(Contains(HasSubstr("hangs"))));
  EXPECT_THAT(Wait(3), AllOf(Contains(HasSubstr("hangs")), Contains(HasSubstr("Stop"))));
}

// The silent rank's program never reports, while the others make steps.
TEST_F(JobMachineSilentTest, OnceAStepWasToldSilentRanksAreNotNamed) {
  step_ = 7;
  EXPECT_THAT(Wait(21),
              AllOf(Contains(HasSubstr("hangs")), Not(Contains(HasSubstr("missing"))),
                    Not(Contains(HasSubstr("rank 3"))), Not(Contains(HasSubstr("told nothing")))));
}

TEST_F(JobMachineSilentTest, ANodeOfSilentRanksThatIsNotHeardIsWaitedFor) {
  silent_ = {2, 3};
  Wait(15);
  unheard_ = 'b';
  EXPECT_THAT(Wait(15), Not(Contains(HasSubstr("hangs"))));
  unheard_ = 0;
  EXPECT_THAT(Wait(2), Contains(HasSubstr("missing 2-3 on b")));
}

// ---- missing in init(), long before the verdict ----

class JobMachineInitWaitTest : public JobMachineSilentTest {
 protected:
  JobMachineInitWaitTest() : JobMachineSilentTest(seconds(600)) {}
};

// Seen red when the first message came with the verdict, after 10 min.
TEST_F(JobMachineInitWaitTest, WhoIsMissingIsSaidOnceAfterAMinute) {
  EXPECT_THAT(Wait(59), Not(Contains(HasSubstr("missing"))));
  EXPECT_EQ(job_.machine().Status({}).arrivals, std::nullopt);
  const auto said = Wait(7);
  for (const std::string node : {"a", "b"}) {
    EXPECT_THAT(said, Contains(AllOf(HasSubstr(node + "<-"),
                                     HasSubstr("3 of 4 ranks are in init(); missing 3 on b: rank 3 "
                                               "(pid 103) started 6"))));
  }
  EXPECT_THAT(said, Not(Contains(HasSubstr("Stop"))));
  ASSERT_TRUE(job_.machine().Status({}).arrivals.has_value());
  EXPECT_EQ(job_.machine().Status({}).arrivals->arrived, 3);
  EXPECT_THAT(Wait(400), Not(Contains(HasSubstr("missing"))));
}

TEST_F(JobMachineInitWaitTest, NobodyIsMissingWhereAllAreInInit) {
  silent_.clear();
  EXPECT_THAT(Wait(120), Not(Contains(HasSubstr("missing"))));
}

TEST_F(JobMachineInitWaitTest, NobodyIsMissingWhereNobodyWaits) {
  silent_ = {0, 1, 2, 3};
  EXPECT_THAT(Wait(120), Not(Contains(HasSubstr("missing"))));
}

TEST_F(JobMachineInitWaitTest, OnceAStepWasToldNobodyIsMissing) {
  step_ = 7;
  EXPECT_THAT(Wait(120), Not(Contains(HasSubstr("missing"))));
  EXPECT_EQ(job_.machine().Status({}).arrivals, std::nullopt);
}

// ---- hang.quarantine ----

class JobMachineHangQuarantineTest : public JobMachineHangTest {
 protected:
  void Begin(int hang_quarantine) {
    JobSpec spec = JobMachineDriver::Spec(2, 2, 9);
    spec.hang_timeout = seconds(10);
    spec.on_hang = JobSpec::kRestartHang;
    spec.hang_quarantine = hang_quarantine;
    Run(spec, "", false);
  }
  void JoinSpare() {
    job_->Join('c');
    spare_ = true;
  }
  // Rank 3, on b, hangs, and the group forms again.
  void Hang() {
    StandStill(12);
    job_->Drain('a');
    job_->Drain('b');
  }
  // a and b run again, and make steps.
  void GoOn() {
    for (const char node : {'a', 'b'}) job_->Prepare(node);
    for (int i = 0; i < 3; ++i) Second(/*moves=*/true);
    job_->Clear();
  }
};

TEST_F(JobMachineHangQuarantineTest, ANodeWhoseRanksHungSoOftenIsLeftOutForASpare) {
  Begin(2);
  JoinSpare();
  Hang();
  EXPECT_THAT(job_->machine().Record().quarantine.hosts, testing::IsEmpty());
  GoOn();
  Hang();
  EXPECT_THAT(job_->Take(), Contains(HasSubstr("c<-g2 Assignment")));
  EXPECT_EQ(job_->last_finished().outcome, Outcome::kLeft);
  EXPECT_EQ(job_->last_finished().reason,
            "b was left out: its ranks hung 2 times; the job goes on without it");
  EXPECT_THAT(job_->last_finished().excluded, testing::ElementsAre("b"));
  job_->Join('b');
  EXPECT_THAT(job_->Take(),
              Contains(HasSubstr("Refused: b is left out of job job: its ranks hung")));
}

TEST_F(JobMachineHangQuarantineTest, WithoutASpareItStaysUntilThereIsOne) {
  Begin(2);
  Hang();
  GoOn();
  Hang();
  EXPECT_THAT(job_->TakeNotes(),
              Contains("b stays in the job, although its ranks hung 2 times: no other node waits "
                       "to take its place"));
  EXPECT_EQ(job_->machine().state(), JobState::kForming);
  GoOn();
  JoinSpare();
  Hang();
  EXPECT_THAT(job_->Take(), Contains(HasSubstr("c<-g3 Assignment")));
  EXPECT_THAT(job_->last_finished().reason, HasSubstr("its ranks hung 3 times"));
}

TEST_F(JobMachineHangQuarantineTest, ZeroLeavesNobodyOut) {
  Begin(0);
  JoinSpare();
  for (int i = 0; i < 4; ++i) {
    Hang();
    GoOn();
  }
  EXPECT_EQ(job_->machine().generation(), Generation{4});
  EXPECT_THAT(job_->machine().Record().quarantine.hosts, testing::IsEmpty());
}

TEST_F(JobMachineHangQuarantineTest, WhereAllRanksWaitNoNodeIsToBlame) {
  Begin(1);
  JoinSpare();
  culprit_ = ProcessState::kRunnable;  // and in the same collective as the others
  Hang();
  EXPECT_EQ(job_->machine().Status({}).last_cause->kind, RootCause::Kind::kHung);
  EXPECT_THAT(job_->machine().Record().quarantine.hosts, testing::IsEmpty());
  EXPECT_THAT(job_->machine().Record().quarantine.hangs, testing::IsEmpty());
}

TEST_F(JobMachineHangQuarantineTest, ARestartedRendezvousKnowsTheHangsBefore) {
  Begin(2);
  JoinSpare();
  Hang();
  GoOn();
  job_->RestartDaemon(seconds(1));
  for (const char node : {'a', 'b'}) job_->Rejoin(node, 1, true);
  job_->Rejoin('c', -1, false);
  for (int i = 0; i < 3; ++i) Second(true);
  Hang();
  EXPECT_THAT(job_->Take(), Contains(HasSubstr("c<-g2 Assignment")));
}

TEST_F(JobMachineHangTest, WhatWasLearnedOutlivesTheRendezvous) {
  Run(JobSpec::kReportHang);
  JobRecord record = job_->machine().Record();
  record.longest_intervals = {{"", seconds(77)}};
  JobMachine next("job", record, TimePoint(seconds(1)));
  EXPECT_EQ(next.Record().longest_intervals, record.longest_intervals);
}

}  // namespace job_machine_hang_test
}  // namespace ddprun
