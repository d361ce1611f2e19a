// Messages and parts of them with every field set, for tests to send or to write down.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_WIRE_FULL_MESSAGES_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_WIRE_FULL_MESSAGES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/stacks/stack_tree.h"
#include "tests/unit/rendezvous/wire/messages_for_test.h"

namespace ddprun {

inline constexpr std::uint64_t kLook = 0xFEDCBA9876543211;

inline WorkerExited FullWorkerExited() {
  return {.rank = {7},
          .local_rank = {3},
          .pid = 4242,
          .status = {.code = 0, .signal = 11, .core_dumped = true},
          .step = 120,
          .error_kind = "collective",
          .error_text = "connection reset by n2",
          .stderr_tail = {"first", "", "not UTF-8: \xFF\xFE"},
          .ended_at_ms = 1'700'000'000'123,
          .oom_killed = true};
}

inline RootCause FullRootCause() {
  RootCause cause;
  cause.kind = RootCause::Kind::kWorkerLeftEarly;
  cause.failure = {"n2", {1}, {3}, FullWorkerExited()};
  cause.victims = {{"n1", {0}, {3}, FullWorkerExited()}, {"n3", {2}, {3}, WorkerExited{}}};
  cause.frames = {{"read", "", 0, "libc.so.6"}, {"Load\xFF", "data.cc", 88, "trainer"}};
  cause.phase = "evaluation";
  cause.still = std::chrono::milliseconds(41'800);
  return cause;
}

inline RootCause LostNode() {
  RootCause cause;
  cause.kind = RootCause::Kind::kNodeLost;
  cause.failure.host = "n4";
  cause.reason = "nothing heard for 3 s";
  return cause;
}

inline std::vector<SavedState> FullStates() {
  return {{1, Generation{4}, 1200, Tier::kMemory},
          {0, Generation{-1}, 0, Tier::kDurable, /*unreadable=*/true}};
}

inline EncodedStackTree FullTree() {
  StackTree tree;
  tree.Add(0, ThreadKind::kMain, {{"main", "main.cc", 7, "trainer"}, {"Load\xFF", "", 0, "x"}});
  tree.Add(5, ThreadKind::kMain, {{"main", "main.cc", 7, "trainer"}});
  tree.Add(5, ThreadKind::kOther, {{"run", "", 0, "libtorch.so"}});
  tree.Add(RankNote{5, RankTrouble::kStopped, "stopped by a signal"});
  tree.Add(RankNote{6, RankTrouble::kGone, "it has ended"});
  EncodedStackTree encoded = tree.Encode();
  encoded.left_out = 3;
  return encoded;
}

inline StuckProcesses FullStuck() {
  return {7,
          {{Rank{0}, 4242, ProcessState::kDiskWait, "write(/data/log)", std::chrono::seconds(12)},
           {std::nullopt, 4243, ProcessState::kTraced, "", std::chrono::milliseconds(2)}}};
}

inline Join FullJoin() {
  Join join = JoinOf("n1", 4, 8);
  join.job.restart_window = std::chrono::hours(1);
  join.job.heartbeat = std::chrono::milliseconds(200);
  join.job.lease = std::chrono::seconds(7);
  join.job.save_timeout = std::chrono::minutes(5);
  join.workers_running = true;
  join.job.never_restart_on = {3, 42};
  join.job.max_membership_changes = 5;
  join.job.quarantine = 3;
  join.job.quarantine_window = std::chrono::minutes(90);
  join.job.start_anew = true;
  join.job.hang_timeout = std::chrono::milliseconds(90'001);
  join.job.on_hang = JobSpec::kReportHang;
  join.job.hang_quarantine = 7;
  join.job.all_nodes = 70;
  join.states = FullStates();
  join.states_pending = true;
  join.failed_checkpoints = {3, 120, "disk full"};
  join.why_ineligible = "preflight: shm: 0 MiB are free in /dev/shm";
  join.program = {"worker", "train.py", {0, 1, 0xFFFFFFFF}};
  join.run_id = RunId{0xFEDCBA9876543210};
  join.can_look_again = true;
  join.look = LookId{kLook};
  join.stuck = FullStuck();
  join.log_folder = "/logs/job-1_x3y9az";
  join.has_checkpoint_folder = true;
  join.can_start_standbys = true;
  join.states_incomplete = true;
  return join;
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_WIRE_FULL_MESSAGES_H_
