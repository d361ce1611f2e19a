#include "rendezvous/core/root_cause.h"
#include "rendezvous/wire/parts.h"
#include "rendezvous/wire/text.h"

namespace ddprun::wire {
namespace {

v1::RootCauseKind KindToProto(RootCause::Kind kind) {
  switch (kind) {
    case RootCause::Kind::kWorkerFailed:
      return v1::ROOT_CAUSE_KIND_WORKER_FAILED;
    case RootCause::Kind::kWorkerLeftEarly:
      return v1::ROOT_CAUSE_KIND_WORKER_LEFT_EARLY;
    case RootCause::Kind::kNodeLost:
      return v1::ROOT_CAUSE_KIND_NODE_LOST;
    case RootCause::Kind::kNodeLeft:
      return v1::ROOT_CAUSE_KIND_NODE_LEFT;
    case RootCause::Kind::kHung:
      return v1::ROOT_CAUSE_KIND_HUNG;
  }
  return v1::ROOT_CAUSE_KIND_UNSPECIFIED;
}

v1::Outcome OutcomeToProto(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSucceeded:
      return v1::OUTCOME_SUCCEEDED;
    case Outcome::kFailed:
      return v1::OUTCOME_FAILED;
    case Outcome::kLeft:
      return v1::OUTCOME_LEFT;
    case Outcome::kUnreachable:
      return v1::OUTCOME_TIMED_OUT;
    case Outcome::kPreempted:
      return v1::OUTCOME_PREEMPTED;
    case Outcome::kStateUnreadable:
      return v1::OUTCOME_STATE_UNREADABLE;
    case Outcome::kRefused:
      break;  // set by the agent itself, never sent
  }
  return v1::OUTCOME_UNSPECIFIED;
}

void FillState(const SavedState& from, v1::SavedState* to) {
  to->set_epoch(from.requeue_number);
  to->set_generation(from.generation.value);
  to->set_step(from.step);
  to->set_tier(from.tier == Tier::kMemory ? v1::TIER_MEMORY : v1::TIER_DURABLE);
  to->set_unreadable(from.unreadable);
}

}  // namespace

void Fill(const NodeSpec& from, v1::NodeSpec* to) {
  to->set_host(CleanText(from.host, kMaxMessageBytes));
  to->set_address(CleanText(from.address, kMaxMessageBytes));
  to->set_worker_count(from.worker_count);
  if (from.requested_rank) to->set_requested_rank(from.requested_rank->value);
}

void Fill(const WorkerExited& from, v1::WorkerExited* to) {
  to->set_rank(from.rank.value);
  to->set_local_rank(from.local_rank.value);
  to->set_pid(from.pid);
  to->mutable_status()->set_code(from.status.code);
  to->mutable_status()->set_signal(from.status.signal);
  to->mutable_status()->set_core_dumped(from.status.core_dumped);
  if (from.step) to->set_step(*from.step);
  to->set_error_kind(CleanText(from.error_kind, kMaxErrorKindBytes));
  to->set_error_text(CleanText(from.error_text, kMaxTextBytes));
  for (std::string& line : NewestLines(from.stderr_tail, kMaxTailLines, kMaxTailBytes)) {
    to->add_stderr_tail(std::move(line));
  }
  to->set_ended_at_ms(from.ended_at_ms);
  to->set_oom_killed(from.oom_killed);
}

void FillFailure(const WorkerFailure& from, v1::WorkerFailure* to) {
  to->set_host(CleanText(from.host, kMaxMessageBytes));
  to->set_node_rank(from.node_rank.value);
  to->set_generation(from.generation.value);
  Fill(from.exit, to->mutable_exit());
}

void Fill(const RootCause& from, v1::RootCause* to) {
  to->set_kind(KindToProto(from.kind));
  FillFailure(from.failure, to->mutable_failure());
  to->set_reason(CleanText(from.reason, kMaxTextBytes));
  for (const WorkerFailure& victim : from.victims) FillFailure(victim, to->add_victims());
  for (const StackFrame& frame : from.frames) Fill(frame, to->add_frames());
  to->set_phase(CleanText(from.phase, kMaxPhaseBytes));
  to->set_still_ms(Bounded(from.still));
}

void Fill(const Finished& from, v1::Finished* to) {
  to->set_outcome(OutcomeToProto(from.outcome));
  to->set_exit_code(from.exit_code);
  to->set_reason(CleanText(from.reason, kMaxTextBytes));
  to->set_restarts_used(from.restarts_used);
  if (from.root_cause) Fill(*from.root_cause, to->mutable_root_cause());
  for (const RootCause& cause : from.earlier) Fill(cause, to->add_earlier());
  FillIfAny(from.failed_checkpoints, to);
  to->set_job_is_over(from.job_is_over);
  for (const std::string& host : from.excluded) to->add_left_out(CleanText(host, kMaxHostBytes));
}

void Fill(const std::vector<SavedState>& from,
          google::protobuf::RepeatedPtrField<v1::SavedState>* to) {
  for (const SavedState& state : from) FillState(state, to->Add());
}

void Fill(const FailedCheckpoints& from, v1::FailedCheckpoints* to) {
  to->set_count(from.count);
  to->set_last_step(from.last_step);
  to->set_last_reason(CleanText(from.last_reason, kMaxFailureReasonBytes));
  to->set_last_host(CleanText(from.last_host, kMaxHostBytes));
}

void Fill(const RestorePlan& from, v1::RestorePlan* to) {
  if (from.state) FillState(*from.state, to->mutable_state());
  to->set_source_rank(from.source.value);
  to->set_source_host(CleanText(from.host, kMaxHostBytes));
  if (!from.unseen) return;
  FillState(from.unseen->state, to->mutable_unseen()->mutable_state());
  to->mutable_unseen()->set_source_rank(from.unseen->source.value);
  to->mutable_unseen()->set_source_host(CleanText(from.unseen->host, kMaxHostBytes));
}

void Fill(const RolePlace& from, v1::RolePlace* to) {
  to->set_first_rank(from.first_rank.value);
  to->set_world_size(from.world_size);
}

}  // namespace ddprun::wire
