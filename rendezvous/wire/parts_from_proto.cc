#include <algorithm>

#include "rendezvous/wire/parts.h"

namespace ddprun::wire {
namespace {

Outcome ReadOutcome(v1::Outcome outcome, FieldChecker& check) {
  switch (outcome) {
    case v1::OUTCOME_SUCCEEDED:
      return Outcome::kSucceeded;
    case v1::OUTCOME_FAILED:
      return Outcome::kFailed;
    case v1::OUTCOME_LEFT:
      return Outcome::kLeft;
    case v1::OUTCOME_TIMED_OUT:
      return Outcome::kUnreachable;
    case v1::OUTCOME_PREEMPTED:
      return Outcome::kPreempted;
    case v1::OUTCOME_STATE_UNREADABLE:
      return Outcome::kStateUnreadable;
    default:
      check.Fail(absl::StrCat("Finished.outcome is ", static_cast<int>(outcome),
                              ", expected one that this version knows"));
      return Outcome::kFailed;
  }
}

WorkerFailure ReadWorkerFailure(const v1::WorkerFailure& from, FieldChecker& check) {
  WorkerFailure to;
  to.host = check.Name("WorkerFailure.host", from.host(), kMaxHostBytes);
  to.node_rank.value = check.Number("WorkerFailure.node_rank", from.node_rank(), 0, kMaxNodes - 1);
  to.generation.value = check.Number("WorkerFailure.generation", from.generation(), 0, kMaxInt32);
  to.exit = ReadWorkerExited(from.exit(), check);
  return to;
}

SavedState ReadState(const v1::SavedState& from, FieldChecker& check) {
  SavedState to;
  to.requeue_number = from.epoch();
  to.generation.value =
      check.Number("SavedState.generation", from.generation(), -1, kMaxGeneration);
  to.step = check.Step("SavedState.step", from.step());
  switch (from.tier()) {
    case v1::TIER_MEMORY:
      to.tier = Tier::kMemory;
      break;
    case v1::TIER_DURABLE:
      to.tier = Tier::kDurable;
      break;
    default:
      check.Fail(absl::StrCat("SavedState.tier is ", static_cast<int>(from.tier()),
                              ", expected one that this version knows"));
  }
  to.unreadable = from.unreadable();
  return to;
}

}  // namespace

NodeSpec ReadNodeSpec(const v1::NodeSpec& from, int max_nodes, FieldChecker& check) {
  NodeSpec to;
  to.host = check.Name("NodeSpec.host", from.host(), kMaxHostBytes);
  to.address = check.Name("NodeSpec.address", from.address(), kMaxHostBytes);
  to.worker_count =
      check.Number("NodeSpec.worker_count", from.worker_count(), 1, kMaxWorkersPerNode);
  if (from.has_requested_rank()) {
    to.requested_rank =
        NodeRank{check.Number("NodeSpec.requested_rank", from.requested_rank(), 0, max_nodes - 1)};
  }
  return to;
}

WorkerExited ReadWorkerExited(const v1::WorkerExited& from, FieldChecker& check) {
  WorkerExited to;
  to.rank.value = check.Number("WorkerExited.rank", from.rank(), 0, kMaxWorldSize - 1);
  to.local_rank.value =
      check.Number("WorkerExited.local_rank", from.local_rank(), 0, kMaxWorkersPerNode - 1);
  to.pid = check.Number("WorkerExited.pid", from.pid(), 0, kMaxInt32);
  to.status.code = check.Number("ExitStatus.code", from.status().code(), 0, kMaxExitCode);
  to.status.signal = check.Number("ExitStatus.signal", from.status().signal(), 0, kMaxSignal);
  to.status.core_dumped = from.status().core_dumped();
  if (to.status.signal != 0 && to.status.code != 0) {
    check.Fail("ExitStatus has a code and a signal, expected one of them");
  }
  if (from.has_step()) to.step = check.Step("WorkerExited.step", from.step());
  to.error_kind = check.Text("WorkerExited.error_kind", from.error_kind(), kMaxErrorKindBytes);
  to.error_text = check.Text("WorkerExited.error_text", from.error_text(), kMaxTextBytes);
  check.Number("WorkerExited.stderr_tail: number of lines", from.stderr_tail_size(), 0,
               kMaxTailLines);
  std::size_t tail_bytes = 0;
  for (const std::string& line : from.stderr_tail()) tail_bytes += line.size();
  check.Number("WorkerExited.stderr_tail: number of bytes", tail_bytes, 0, kMaxTailBytes);
  to.stderr_tail.assign(from.stderr_tail().begin(), from.stderr_tail().end());
  to.ended_at_ms = from.ended_at_ms();
  to.oom_killed = from.oom_killed();
  return to;
}

RootCause ReadRootCause(const v1::RootCause& from, FieldChecker& check) {
  RootCause to;
  switch (from.kind()) {
    case v1::ROOT_CAUSE_KIND_WORKER_FAILED:
      to.kind = RootCause::Kind::kWorkerFailed;
      break;
    case v1::ROOT_CAUSE_KIND_WORKER_LEFT_EARLY:
      to.kind = RootCause::Kind::kWorkerLeftEarly;
      break;
    case v1::ROOT_CAUSE_KIND_NODE_LOST:
      to.kind = RootCause::Kind::kNodeLost;
      break;
    case v1::ROOT_CAUSE_KIND_NODE_LEFT:
      to.kind = RootCause::Kind::kNodeLeft;
      break;
    case v1::ROOT_CAUSE_KIND_HUNG:
      to.kind = RootCause::Kind::kHung;
      break;
    default:
      check.Fail(absl::StrCat("RootCause.kind is ", static_cast<int>(from.kind()),
                              ", expected one that this version knows"));
  }
  to.failure = ReadWorkerFailure(from.failure(), check);
  to.reason = check.Text("RootCause.reason", from.reason(), kMaxTextBytes);
  check.Number("RootCause.victims: number", from.victims_size(), 0, kMaxVictims);
  for (const v1::WorkerFailure& victim : from.victims()) {
    to.victims.push_back(ReadWorkerFailure(victim, check));
  }
  to.frames = ReadFrames(from.frames(), check);
  to.phase = check.Text("RootCause.phase", from.phase(), kMaxPhaseBytes);
  to.still = check.Timeout("RootCause.still_ms", from.still_ms());
  return to;
}

Finished ReadFinished(const v1::Finished& from, FieldChecker& check) {
  Finished to;
  to.outcome = ReadOutcome(from.outcome(), check);
  to.exit_code = check.Number("Finished.exit_code", from.exit_code(), 0, kMaxExitCode);
  to.reason = check.Text("Finished.reason", from.reason(), kMaxTextBytes);
  to.restarts_used = check.Number("Finished.restarts_used", from.restarts_used(), 0, kMaxRestarts);
  if (from.has_root_cause()) to.root_cause = ReadRootCause(from.root_cause(), check);
  check.Number("Finished.earlier: number", from.earlier_size(), 0, kMaxEarlierCauses);
  for (const v1::RootCause& cause : from.earlier()) {
    to.earlier.push_back(ReadRootCause(cause, check));
  }
  if (from.has_failed_checkpoints()) {
    to.failed_checkpoints = ReadFailed(from.failed_checkpoints(), kMaxFailedCheckpoints, check);
  }
  to.excluded = ReadExcluded(from.left_out(), check);
  to.job_is_over = from.job_is_over();
  return to;
}

std::vector<std::string> ReadExcluded(const google::protobuf::RepeatedPtrField<std::string>& from,
                                      FieldChecker& check) {
  std::vector<std::string> to;
  check.Number("left_out: number", from.size(), 0, Quarantine::kMaxHosts);
  for (const std::string& host : from) {
    if (to.size() == Quarantine::kMaxHosts) break;
    to.push_back(check.Name("left_out", host, kMaxHostBytes));
  }
  return to;
}

std::vector<SavedState> ReadStates(const google::protobuf::RepeatedPtrField<v1::SavedState>& from,
                                   FieldChecker& check) {
  std::vector<SavedState> to;
  check.Number("SavedState: number", from.size(), 0, kMaxSavedStates);
  for (const v1::SavedState& state : from) {
    if (to.size() == kMaxSavedStates) break;
    to.push_back(ReadState(state, check));
  }
  return to;
}

FailedCheckpoints ReadFailed(const v1::FailedCheckpoints& from, std::int64_t max_count,
                             FieldChecker& check) {
  FailedCheckpoints to;
  if (from.count() < 1 || from.count() > max_count) {
    check.Fail(
        absl::StrCat("FailedCheckpoints.count is ", from.count(), ", expected 1 to ", max_count));
  }
  to.count = from.count();
  to.last_step = check.Step("FailedCheckpoints.last_step", from.last_step());
  to.last_reason =
      check.Text("FailedCheckpoints.last_reason", from.last_reason(), kMaxFailureReasonBytes);
  to.last_host = check.Text("FailedCheckpoints.last_host", from.last_host(), kMaxHostBytes);
  return to;
}

RestorePlan ReadRestorePlan(const v1::RestorePlan& from, std::int64_t world_size,
                            FieldChecker& check) {
  RestorePlan to;
  if (from.has_state()) to.state = ReadState(from.state(), check);
  to.source.value = check.Number("RestorePlan.source_rank", from.source_rank(), 0, world_size - 1);
  to.host = check.Text("RestorePlan.source_host", from.source_host(), kMaxHostBytes);
  if (!from.has_unseen()) return to;
  RestorePlan::Unseen& unseen = to.unseen.emplace();
  unseen.state = ReadState(from.unseen().state(), check);
  unseen.source.value =
      check.Number("UnseenState.source_rank", from.unseen().source_rank(), 0, world_size - 1);
  unseen.host = check.Text("UnseenState.source_host", from.unseen().source_host(), kMaxHostBytes);
  return to;
}

RolePlace ReadRolePlace(const v1::RolePlace& from, std::int64_t world_size, FieldChecker& check) {
  RolePlace to;
  to.world_size = check.Number("RolePlace.world_size", from.world_size(), 1, world_size);
  to.first_rank.value =
      check.Number("RolePlace.first_rank", from.first_rank(), 0, to.world_size - 1);
  return to;
}

}  // namespace ddprun::wire
