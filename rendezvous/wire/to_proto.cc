#include <chrono>
#include <variant>

#include "rendezvous/core/exit_status.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/parts.h"
#include "rendezvous/wire/text.h"
#include "rendezvous/wire/translate.h"

namespace ddprun::wire {
namespace {

void FillHeader(const Header& from, v1::Header* to) {
  to->set_job(CleanText(from.job, kMaxMessageBytes));
  to->set_epoch(from.requeue_number);
  to->set_generation(from.generation.value);
  to->set_incarnation(from.agent_id.value);
  to->set_term(from.term.revision);
  to->set_cluster(from.term.cluster);
}

void FillUsage(const NodeUsage& from, v1::NodeUsage* to) {
  to->set_cpu_ms(from.cpu.count());
  to->set_resident_bytes(from.resident_bytes);
  to->set_round_trip_us(
      std::chrono::duration_cast<std::chrono::microseconds>(from.round_trip).count());
  if (from.stragglers) to->set_stragglers(static_cast<std::uint32_t>(*from.stragglers));
  for (const Rank rank : from.straggler_ranks) {
    to->add_straggler_ranks(static_cast<std::uint32_t>(rank.value));
  }
  to->set_failed_snapshots(from.failed_snapshots);
}

// Sets the body of `to` from one alternative of AgentMessage.
struct AgentBody {
  v1::AgentMessage* to;

  void operator()(const Join& join) const {
    v1::Join* const body = to->mutable_join();
    Fill(join.job, body->mutable_job());
    Fill(join.node, body->mutable_node());
    body->set_offered_port(join.offered_port);
    body->set_workers_running(join.workers_running);
    body->set_returning(join.returning);
    Fill(join.states, body->mutable_states());
    body->set_states_pending(join.states_pending);
    body->set_states_incomplete(join.states_incomplete);
    FillIfAny(join.failed_checkpoints, body);
    body->set_unfit(CleanText(join.why_ineligible, kMaxTextBytes));
    body->set_run_id(join.run_id.value);
    body->set_can_look_again(join.can_look_again);
    body->set_look(join.look.value);
    FillIfAny(join.stuck, body);
    body->set_log_folder(CleanText(join.log_folder, kMaxLogFolderBytes));
    body->set_has_checkpoint_folder(join.has_checkpoint_folder);
    body->set_can_start_standbys(join.can_start_standbys);
    if (join.program.name.empty()) return;
    body->mutable_program()->set_role(CleanText(join.program.role, kMaxProgramBytes));
    body->mutable_program()->set_name(CleanText(join.program.name, kMaxProgramBytes));
    body->mutable_program()->mutable_arguments()->Assign(join.program.arguments.begin(),
                                                         join.program.arguments.end());
  }
  void operator()(const Heartbeat& heartbeat) const {
    to->mutable_heartbeat()->set_sent_at(heartbeat.sent_at);
    if (heartbeat.step) to->mutable_heartbeat()->set_step(*heartbeat.step);
    Fill(heartbeat.states, to->mutable_heartbeat()->mutable_states());
    FillIfAny(heartbeat.failed_checkpoints, to->mutable_heartbeat());
    FillIfAny(heartbeat.stuck, to->mutable_heartbeat());
    if (heartbeat.progress) Fill(*heartbeat.progress, to->mutable_heartbeat()->mutable_progress());
    if (heartbeat.usage) FillUsage(*heartbeat.usage, to->mutable_heartbeat()->mutable_usage());
    to->mutable_heartbeat()->set_can_stand_by(heartbeat.can_stand_by);
    if (heartbeat.arrivals) {
      v1::StoreArrivals* const arrivals = to->mutable_heartbeat()->mutable_arrivals();
      arrivals->set_arrived(heartbeat.arrivals->arrived);
      for (const Rank rank : heartbeat.arrivals->missing) arrivals->add_missing(rank.value);
    }
  }
  void operator()(const AssignmentAck&) const { to->mutable_prepared(); }
  void operator()(const WorkerExited& exit) const { Fill(exit, to->mutable_worker_exited()); }
  void operator()(const Stopped& stopped) const {
    to->mutable_drained()->set_offered_port(stopped.offered_port);
    if (stopped.last_step) to->mutable_drained()->set_last_step(*stopped.last_step);
    to->mutable_drained()->set_fenced_at_ms(stopped.fenced_at_ms);
    Fill(stopped.states, to->mutable_drained()->mutable_states());
    to->mutable_drained()->set_states_pending(stopped.states_pending);
    to->mutable_drained()->set_states_incomplete(stopped.states_incomplete);
    to->mutable_drained()->set_look(stopped.look.value);
    FillIfAny(stopped.failed_checkpoints, to->mutable_drained());
    FillIfAny(stopped.stuck, to->mutable_drained());
    if (stopped.start)
      to->mutable_drained()->set_start_ms(
          std::chrono::floor<std::chrono::milliseconds>(*stopped.start).count());
    for (const EnteredCall& call : stopped.calls) Fill(call, to->mutable_drained()->add_calls());
  }
  void operator()(const Checkpointed& checkpointed) const {
    to->mutable_checkpointed()->set_step(checkpointed.step);
  }
  void operator()(const CheckpointDamaged& damaged) const {
    to->mutable_checkpoint_damaged()->set_step(damaged.step);
    to->mutable_checkpoint_damaged()->set_reason(CleanText(damaged.reason, kMaxFailureReasonBytes));
  }
  void operator()(const CannotSave&) const { to->mutable_cannot_save(); }
  void operator()(const Preempted& preempted) const {
    to->mutable_preempted()->set_reason(CleanText(preempted.reason, kMaxTextBytes));
  }
  void operator()(const StoreElsewhere& elsewhere) const {
    to->mutable_store_elsewhere()->set_where(CleanText(elsewhere.where, kMaxHostBytes));
  }
  void operator()(const StandbysReady&) const { to->mutable_standbys_ready(); }
  void operator()(const HeldStates& held) const {
    Fill(held.states, to->mutable_held_states()->mutable_states());
    to->mutable_held_states()->set_look(held.look.value);
    to->mutable_held_states()->set_states_incomplete(held.states_incomplete);
  }
  void operator()(const RestartTimed& restart) const {
    v1::RestartTimed& timed = *to->mutable_restart_timed();
    timed.set_warm_workers(restart.times.warm_workers);
    timed.set_to_first_step(restart.times.to_first_step);
    for (const PhaseTime& phase : restart.times.phases) {
      v1::RestartTimed::Phase& entry = *timed.add_phases();
      entry.set_name(CleanText(phase.name, kMaxPhaseBytes));
      entry.set_microseconds(phase.microseconds);
    }
  }
  void operator()(const StacksTaken& taken) const {
    to->mutable_stacks_taken()->set_request(taken.request.value);
    to->mutable_stacks_taken()->set_tree(taken.packed ? *taken.packed : PackTree(*taken.tree));
  }
  void operator()(const LogPiece& piece) const { Fill(piece, to->mutable_log_piece()); }
  void operator()(const Leave& leave) const {
    to->mutable_leave()->set_reason(CleanText(leave.reason, kMaxTextBytes));
    to->mutable_leave()->set_exit_code(leave.exit_code);
  }
};

// Sets the body of `to` from one alternative of RendezvousMessage.
struct RendezvousBody {
  v1::RendezvousMessage* to;

  void operator()(const Waiting& waiting) const {
    to->mutable_waiting()->set_reason(CleanText(waiting.reason, kMaxTextBytes));
    to->mutable_waiting()->set_start_standbys(waiting.start_standbys);
  }
  void operator()(const Assignment& assignment) const {
    v1::Assignment* const body = to->mutable_assignment();
    body->set_node_rank(assignment.node_rank.value);
    body->set_node_count(assignment.node_count);
    body->set_first_rank(assignment.first_rank.value);
    body->set_world_size(assignment.world_size);
    body->set_master_addr(CleanText(assignment.master_addr, kMaxMessageBytes));
    body->set_master_port(assignment.master_port);
    body->set_restart_count(assignment.restart_count);
    body->set_max_restarts(assignment.max_restarts);
    if (assignment.restore) Fill(*assignment.restore, body->mutable_restore());
    body->set_run_id(assignment.run_id.value);
    body->set_secret(assignment.secret);
    body->set_agent_store(assignment.agent_store);
    if (assignment.role.world_size > 0) Fill(assignment.role, body->mutable_role());
  }
  void operator()(const HeartbeatAck& ack) const {
    to->mutable_heartbeat_ack()->set_sent_at(ack.sent_at);
  }
  void operator()(const Start&) const { to->mutable_start(); }
  void operator()(const Save&) const { to->mutable_save(); }
  void operator()(const Stop& stop) const {
    to->mutable_stop()->set_reason(CleanText(stop.reason, kMaxTextBytes));
    to->mutable_stop()->set_look(stop.look.value);
    for (const LocalRank local_rank : stop.hung) to->mutable_stop()->add_hung(local_rank.value);
  }
  void operator()(const Finished& finished) const { Fill(finished, to->mutable_finished()); }
  void operator()(const Fenced& fenced) const {
    to->mutable_fenced()->set_reason(CleanText(fenced.reason, kMaxTextBytes));
  }
  void operator()(const Refused& refused) const {
    to->mutable_refused()->set_reason(CleanText(refused.reason, kMaxTextBytes));
  }
  void operator()(const Warning& warning) const {
    to->mutable_warning()->set_text(CleanText(warning.text, kMaxTextBytes));
  }
  void operator()(const LookAgain& again) const {
    to->mutable_look_again()->set_look(again.look.value);
    to->mutable_look_again()->set_run_id(again.run_id.value);
  }
  void operator()(const TakeStacks& take) const {
    to->mutable_take_stacks()->set_request(take.request.value);
  }
  void operator()(const HangReported& hang) const { Fill(*hang.stacks, to->mutable_hang_stacks()); }
  void operator()(const LogOrder& order) const { Fill(order, to->mutable_log_order()); }
};

}  // namespace

v1::AgentMessage ToProto(const Header& header, const AgentMessage& message) {
  v1::AgentMessage proto;
  FillHeader(header, proto.mutable_header());
  std::visit(AgentBody{&proto}, message);
  return proto;
}

v1::GoneReport ToGoneReport(const Header& header) {
  v1::GoneReport proto;
  FillHeader(header, proto.mutable_header());
  return proto;
}

v1::RendezvousMessage ToProto(const Header& header, const RendezvousMessage& message) {
  v1::RendezvousMessage proto;
  FillHeader(header, proto.mutable_header());
  std::visit(RendezvousBody{&proto}, message);
  return proto;
}

}  // namespace ddprun::wire
