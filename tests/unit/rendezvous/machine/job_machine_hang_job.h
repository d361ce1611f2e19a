// A job of two nodes whose ranks do not move: the fixture of hang tests of JobMachine.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_MACHINE_JOB_MACHINE_HANG_JOB_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_MACHINE_JOB_MACHINE_HANG_JOB_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/machine/job_machine.h"
#include "tests/unit/rendezvous/machine/job_machine_driver.h"

namespace ddprun {

class JobMachineHangTest : public testing::Test {
 protected:
  // Starts two nodes with two workers each, which make steps. `phase`: the phase that the program
  // names at its beginning; "": the program names none.
  void Run(int on_hang, const std::string& phase = "", bool checkpoint = false) {
    JobSpec spec = JobMachineDriver::Spec(2, 2, 3);
    spec.hang_timeout = std::chrono::seconds(10);
    spec.hang_startup_timeout = std::chrono::seconds(100);
    spec.on_hang = on_hang;
    Run(spec, phase, checkpoint);
  }
  void Run(const JobSpec& spec, const std::string& phase, bool checkpoint) {
    job_.emplace(spec, options_);
    job_->RunTwoNodes();
    phase_ = named_ = phase;
    for (int i = 0; i < 3; ++i) Second(/*moves=*/true);
    phase_ = "";
    Second(true);
    if (checkpoint) job_->Checkpoint('a', 3);
    job_->Clear();
  }
  // A second passes, and both nodes send a heartbeat. `moves`: their ranks have moved.
  void Second(bool moves) {
    still_ = moves ? Duration{} : still_ + std::chrono::seconds(1);
    ++step_;
    job_->Advance(std::chrono::seconds(1));
    if (spare_) job_->Beat('c');
    for (const char node : {'a', 'b'}) {
      if (node == silent_) continue;
      Heartbeat heartbeat;
      if (tells_steps_) heartbeat.step = moves ? step_ : 5;
      heartbeat.progress = NodeProgress{2, still_, {phase_}};
      heartbeat.progress->names_phases = !named_.empty();
      heartbeat.progress->stepped = steps_;
      if (!moves) AddWorkers(node, &*heartbeat.progress);
      if (debugged_) {
        heartbeat.progress->excused = true;
        heartbeat.progress->still = Duration{};
      }
      if (said_bye_) heartbeat.progress = Leaving(node);
      if (node == 'b') heartbeat.progress->excuse = excuse_;
      job_->Receive(node, heartbeat);
    }
  }
  // All ranks have sent BYE, and one rank on b does not end.
  NodeProgress Leaving(char node) const {
    NodeProgress progress;
    if (node == 'b') progress.leaving_workers = {{LocalRank{1}, 201, still_}};
    return progress;
  }
  void AddWorkers(char node, NodeProgress* progress) {
    for (int i = 0; i < 2; ++i) {
      StillWorker worker{LocalRank{i}, (node == 'a' ? 100 : 200) + i, still_, 5, phase_};
      if (node == 'b' && i == 1) {
        worker.state = culprit_;
        worker.busy = busy_;
      }
      if (collectives_ && !(node == 'b' && i == 1 && busy_)) {
        worker.inside = CollectiveCall{"default", 9, "all_reduce", 4};
      }
      progress->still_workers.push_back(worker);
    }
  }
  std::vector<std::string> StandStill(int for_seconds) {
    for (int i = 0; i < for_seconds; ++i) Second(false);
    return job_->Take();
  }

  JobMachineOptions options_;
  std::optional<JobMachineDriver> job_;
  std::string phase_;
  std::string named_;
  Duration still_{};
  std::int64_t step_ = 0;
  ProcessState culprit_ = ProcessState::kStopped;
  bool busy_ = false;
  bool collectives_ = true;  // the ranks report collectives
  bool debugged_ = false;
  std::optional<HangExcuse> excuse_;  // excuse of node b
  bool tells_steps_ = true;
  bool steps_ = true;      // the ranks make steps
  bool said_bye_ = false;  // Leaving()
  char silent_ = 0;
  bool spare_ = false;  // node c waits as a spare
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_MACHINE_JOB_MACHINE_HANG_JOB_H_
