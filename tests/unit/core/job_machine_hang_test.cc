// What JobMachine does where no rank moves: whom it names, and whether it starts again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/core/job_machine_driver.h"

namespace ddprun {
namespace job_machine_hang_test {

using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class JobMachineHangTest : public testing::Test {
 protected:
  // Two nodes of two workers that have made steps. `phase`: what the program has named.
  void Run(int on_hang, const std::string& phase = "", bool checkpoint = false) {
    JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
    spec.hang_timeout = seconds(10);
    spec.hang_startup_timeout = seconds(100);
    spec.on_hang = on_hang;
    Run(spec, phase, checkpoint);
  }
  void Run(const JobSpec& spec, const std::string& phase, bool checkpoint) {
    job_.emplace(spec);
    job_->RunTwoNodes();
    phase_ = named_ = phase;
    for (int i = 0; i < 3; ++i) Second(/*moves=*/true);
    phase_ = "";
    Second(true);
    if (checkpoint) job_->Checkpoint('a', 3);
    job_->Clear();
  }
  // A heartbeat of both nodes, a second later.
  void Second(bool moves) {
    still_ = moves ? Duration{} : still_ + seconds(1);
    ++step_;
    job_->Advance(seconds(1));
    for (const char node : {'a', 'b'}) {
      if (node == silent_) continue;
      Heartbeat heartbeat;
      heartbeat.step = moves ? step_ : 5;
      heartbeat.progress = NodeProgress{2, still_, {phase_}};
      heartbeat.progress->names_phases = !named_.empty();
      if (!moves) AddWorkers(node, &*heartbeat.progress);
      job_->Receive(node, heartbeat);
    }
  }
  void AddWorkers(char node, NodeProgress* progress) {
    for (int i = 0; i < 2; ++i) {
      StillWorker worker{LocalRank{i}, (node == 'a' ? 100 : 200) + i, still_, 5, phase_};
      if (node == 'b' && i == 1) {
        worker.state = culprit_;
        worker.busy = busy_;
      }
      if (!(node == 'b' && i == 1 && busy_)) {
        worker.inside = CollectiveCall{"default", 9, "all_reduce", 4};
      }
      progress->still_workers.push_back(worker);
    }
  }
  std::vector<std::string> StandStill(int for_seconds) {
    for (int i = 0; i < for_seconds; ++i) Second(false);
    return job_->Take();
  }

  std::optional<JobMachineDriver> job_;
  std::string phase_;
  std::string named_;
  Duration still_{};
  std::int64_t step_ = 0;
  ProcessState culprit_ = ProcessState::kStopped;
  bool busy_ = false;
  char silent_ = 0;
};

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

// The rows of the default.
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
TEST_F(JobMachineHangTest, OneThatNamesItsPhasesAndHasSavedStartsAgain) {
  Run(JobSpec::kChooseOnHang, "restore", /*checkpoint=*/true);
  EXPECT_THAT(StandStill(12), Contains(HasSubstr("Stop")));
}
TEST_F(JobMachineHangTest, ABusyCulpritIsReportedFirstAndEndedMuchLater) {
  Run(JobSpec::kChooseOnHang, "restore", /*checkpoint=*/true);
  culprit_ = ProcessState::kRunnable;
  busy_ = true;
  EXPECT_THAT(StandStill(90), AllOf(Contains(HasSubstr("uses the CPU or does I/O")),
                                    Not(Contains(HasSubstr("Stop")))));
  EXPECT_THAT(StandStill(15), Contains(HasSubstr("Stop")));
}
TEST_F(JobMachineHangTest, AfterARankHasEndedTheOthersAreLeftAlone) {
  Run(JobSpec::kRestartHang);
  job_->Exit('a', 0, 0, {});
  EXPECT_THAT(StandStill(90), Not(Contains(HasSubstr("hangs"))));
  EXPECT_THAT(StandStill(20),
              AllOf(Contains(HasSubstr("hangs")), Not(Contains(HasSubstr("Stop")))));
}

TEST_F(JobMachineHangTest, WhereHangsAreNotWatchedNothingIsSaid) {
  JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
  spec.on_hang = JobSpec::kIgnoreHang;
  spec.hang_startup_timeout = seconds(10);
  Run(spec, "", false);
  EXPECT_THAT(StandStill(1000), Not(Contains(HasSubstr("hangs"))));
}

// A node that is not heard may move all the time.
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

TEST_F(JobMachineHangTest, WhatWasLearnedOutlivesTheRendezvous) {
  Run(JobSpec::kReportHang);
  JobRecord record = job_->machine().Record();
  record.longest_intervals = {{"", seconds(77)}};
  JobMachine next("job", record, TimePoint(seconds(1)));
  EXPECT_EQ(next.Record().longest_intervals, record.longest_intervals);
}

}  // namespace job_machine_hang_test
}  // namespace ddprun
