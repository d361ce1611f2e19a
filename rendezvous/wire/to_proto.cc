#include <chrono>
#include <variant>

#include "rendezvous/core/exit_status.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/text.h"
#include "rendezvous/wire/translate.h"

namespace ddprun::wire {
namespace {

// Rounded up, so that a timeout never becomes shorter.
std::int64_t Milliseconds(Duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration).count();
}

void Fill(const Header& from, v1::Header* to) {
  to->set_job(CleanText(from.job, kMaxMessageBytes));
  to->set_epoch(from.epoch);
  to->set_generation(from.generation.value);
  to->set_incarnation(from.incarnation.value);
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

void Fill(const WorkerFailure& from, v1::WorkerFailure* to) {
  to->set_host(CleanText(from.host, kMaxMessageBytes));
  to->set_node_rank(from.node_rank.value);
  to->set_generation(from.generation.value);
  Fill(from.exit, to->mutable_exit());
}

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
  }
  return v1::ROOT_CAUSE_KIND_UNSPECIFIED;
}

void Fill(const RootCause& from, v1::RootCause* to) {
  to->set_kind(KindToProto(from.kind));
  Fill(from.failure, to->mutable_failure());
  to->set_reason(CleanText(from.reason, kMaxTextBytes));
  for (const WorkerFailure& victim : from.victims) Fill(victim, to->add_victims());
}

v1::Outcome OutcomeToProto(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSucceeded:
      return v1::OUTCOME_SUCCEEDED;
    case Outcome::kFailed:
      return v1::OUTCOME_FAILED;
    case Outcome::kLeft:
      return v1::OUTCOME_LEFT;
    case Outcome::kTimedOut:
      return v1::OUTCOME_TIMED_OUT;
    case Outcome::kPreempted:
      return v1::OUTCOME_PREEMPTED;
  }
  return v1::OUTCOME_UNSPECIFIED;
}

// Sets the body of `to` from one alternative of AgentMessage.
struct AgentBody {
  v1::AgentMessage* to;

  void operator()(const Join& join) const {
    v1::Join* const body = to->mutable_join();
    v1::JobSpec* const job = body->mutable_job();
    job->set_min_nodes(join.job.min_nodes);
    job->set_max_nodes(join.job.max_nodes);
    job->set_max_restarts(join.job.max_restarts);
    job->set_join_timeout_ms(Milliseconds(join.job.join_timeout));
    job->set_last_call_ms(Milliseconds(join.job.last_call));
    job->set_heartbeat_ms(Milliseconds(join.job.heartbeat));
    job->set_lease_ms(Milliseconds(join.job.lease));
    job->set_save_timeout_ms(Milliseconds(join.job.save_timeout));
    if (join.job.restart_window) {
      job->set_restart_window_ms(Milliseconds(*join.job.restart_window));
    }
    for (const int code : join.job.never_restart_on) job->add_never_restart_on(code);
    job->set_master_addr(CleanText(join.job.master_addr, kMaxMessageBytes));
    job->set_master_port(join.job.master_port);
    v1::NodeSpec* const node = body->mutable_node();
    node->set_host(CleanText(join.node.host, kMaxMessageBytes));
    node->set_address(CleanText(join.node.address, kMaxMessageBytes));
    node->set_worker_count(join.node.worker_count);
    if (join.node.requested_rank) node->set_requested_rank(join.node.requested_rank->value);
    body->set_offered_port(join.offered_port);
    body->set_workers_running(join.workers_running);
  }
  void operator()(const Heartbeat& heartbeat) const {
    to->mutable_heartbeat()->set_sent_at(heartbeat.sent_at);
    if (heartbeat.step) to->mutable_heartbeat()->set_step(*heartbeat.step);
  }
  void operator()(const Prepared&) const { to->mutable_prepared(); }
  void operator()(const WorkerExited& exit) const { Fill(exit, to->mutable_worker_exited()); }
  void operator()(const Drained& drained) const {
    to->mutable_drained()->set_offered_port(drained.offered_port);
    if (drained.last_step) to->mutable_drained()->set_last_step(*drained.last_step);
    to->mutable_drained()->set_fenced_at_ms(drained.fenced_at_ms);
  }
  void operator()(const Checkpointed& checkpointed) const {
    to->mutable_checkpointed()->set_step(checkpointed.step);
  }
  void operator()(const CannotSave&) const { to->mutable_cannot_save(); }
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
  }
  void operator()(const HeartbeatAck& ack) const {
    to->mutable_heartbeat_ack()->set_sent_at(ack.sent_at);
  }
  void operator()(const Start&) const { to->mutable_start(); }
  void operator()(const Save&) const { to->mutable_save(); }
  void operator()(const Stop& stop) const {
    to->mutable_stop()->set_reason(CleanText(stop.reason, kMaxTextBytes));
  }
  void operator()(const Finished& finished) const {
    v1::Finished* const body = to->mutable_finished();
    body->set_outcome(OutcomeToProto(finished.outcome));
    body->set_exit_code(finished.exit_code);
    body->set_reason(CleanText(finished.reason, kMaxTextBytes));
    body->set_restarts_used(finished.restarts_used);
    if (finished.root_cause) Fill(*finished.root_cause, body->mutable_root_cause());
    for (const RootCause& cause : finished.earlier) Fill(cause, body->add_earlier());
  }
  void operator()(const Fenced& fenced) const {
    to->mutable_fenced()->set_reason(CleanText(fenced.reason, kMaxTextBytes));
  }
  void operator()(const Refused& refused) const {
    to->mutable_refused()->set_reason(CleanText(refused.reason, kMaxTextBytes));
  }
};

}  // namespace

v1::AgentMessage ToProto(const Header& header, const AgentMessage& message) {
  v1::AgentMessage proto;
  Fill(header, proto.mutable_header());
  std::visit(AgentBody{&proto}, message);
  return proto;
}

v1::GoneReport ToGoneReport(const Header& header) {
  v1::GoneReport proto;
  Fill(header, proto.mutable_header());
  return proto;
}

v1::RendezvousMessage ToProto(const Header& header, const RendezvousMessage& message) {
  v1::RendezvousMessage proto;
  Fill(header, proto.mutable_header());
  std::visit(RendezvousBody{&proto}, message);
  return proto;
}

}  // namespace ddprun::wire
