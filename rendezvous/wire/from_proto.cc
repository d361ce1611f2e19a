#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/exit_status.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/parts.h"
#include "rendezvous/wire/translate.h"

namespace ddprun::wire {
namespace {

Header ReadHeader(const v1::Header& from, FieldChecker& check) {
  Header to;
  to.job = check.Name("Header.job", from.job(), kMaxJobBytes);
  to.requeue_number = from.epoch();
  to.generation.value = check.Number("Header.generation", from.generation(), -1, kMaxGeneration);
  to.agent_id.value = from.incarnation();
  if (to.agent_id.value == 0) check.Fail("Header.incarnation is 0, expected a random number");
  to.term = {from.cluster(), from.term()};
  return to;
}

int ReadPort(const char* field, std::uint32_t port, FieldChecker& check) {
  return check.Number(field, port, 1, kMaxPort);
}

Join ReadJoin(const v1::Join& from, FieldChecker& check) {
  Join to;
  to.job = ReadJobSpec(from.job(), check);
  to.node = ReadNodeSpec(from.node(), to.job.max_nodes, check);
  to.offered_port = ReadPort("Join.offered_port", from.offered_port(), check);
  to.workers_running = from.workers_running();
  to.returning = from.returning();
  to.states = ReadStates(from.states(), check);
  to.states_pending = from.states_pending();
  to.states_incomplete = from.states_incomplete();
  if (from.has_failed_checkpoints()) {
    to.failed_checkpoints = ReadFailed(from.failed_checkpoints(), kMaxCheckpointFailures, check);
  }
  to.why_ineligible = check.Text("Join.unfit", from.unfit(), kMaxTextBytes);
  to.program.role = check.Text("WorkerProgram.role", from.program().role(), kMaxProgramBytes);
  to.program.name = check.Text("WorkerProgram.name", from.program().name(), kMaxProgramBytes);
  check.Number("WorkerProgram.arguments: number", from.program().arguments_size(), 0,
               kMaxComparedArguments);
  to.program.arguments.assign(from.program().arguments().begin(), from.program().arguments().end());
  to.run_id.value = from.run_id();
  to.can_look_again = from.can_look_again();
  to.look.value = from.look();
  if (from.has_stuck()) to.stuck = ReadStuck(from.stuck(), check);
  to.log_folder = check.Text("Join.log_folder", from.log_folder(), kMaxLogFolderBytes);
  to.has_checkpoint_folder = from.has_checkpoint_folder();
  to.can_start_standbys = from.can_start_standbys();
  return to;
}

StoreArrivals ReadArrivals(const v1::StoreArrivals& from, FieldChecker& check) {
  StoreArrivals to;
  to.arrived = check.Number("StoreArrivals.arrived", from.arrived(), 1, kMaxWorldSize);
  check.Number("StoreArrivals.missing: number", from.missing_size(), 0,
               StoreArrivals::kMostMissing);
  if (!check.status().ok()) return to;
  for (const auto rank : from.missing()) {
    to.missing.push_back(Rank{check.Number("StoreArrivals.missing", rank, 0, kMaxWorldSize - 1)});
  }
  return to;
}

NodeUsage ReadUsage(const v1::NodeUsage& from, FieldChecker& check) {
  constexpr std::chrono::microseconds kLongest = kMaxTimeout;
  NodeUsage to;
  to.cpu = std::chrono::milliseconds(check.Step("NodeUsage.cpu_ms", from.cpu_ms()));
  to.resident_bytes = check.Step("NodeUsage.resident_bytes", from.resident_bytes());
  to.failed_snapshots = check.Step("NodeUsage.failed_snapshots", from.failed_snapshots());
  if (from.round_trip_us() < 0 || from.round_trip_us() > kLongest.count()) {
    check.Fail(absl::StrCat("NodeUsage.round_trip_us is ", from.round_trip_us(), ", expected 0 to ",
                            kLongest.count()));
    return to;
  }
  to.round_trip = std::chrono::microseconds(from.round_trip_us());
  if (from.has_stragglers()) {
    to.stragglers = check.Number("NodeUsage.stragglers", from.stragglers(), 0, kMaxWorldSize);
  }
  check.Number("NodeUsage.straggler_ranks: number", from.straggler_ranks_size(), 0,
               NodeUsage::kMostNamed);
  if (!check.status().ok()) return to;
  for (const auto rank : from.straggler_ranks()) {
    to.straggler_ranks.push_back(
        Rank{check.Number("NodeUsage.straggler_ranks", rank, 0, kMaxWorldSize - 1)});
  }
  return to;
}

Heartbeat ReadHeartbeat(const v1::Heartbeat& from, FieldChecker& check) {
  Heartbeat to;
  to.sent_at = from.sent_at();
  if (from.has_step()) to.step = check.Step("Heartbeat.step", from.step());
  to.states = ReadStates(from.states(), check);
  if (from.has_failed_checkpoints()) {
    to.failed_checkpoints = ReadFailed(from.failed_checkpoints(), kMaxCheckpointFailures, check);
  }
  if (from.has_progress()) to.progress = ReadProgress(from.progress(), check);
  if (from.has_arrivals()) to.arrivals = ReadArrivals(from.arrivals(), check);
  if (from.has_stuck()) to.stuck = ReadStuck(from.stuck(), check);
  if (from.has_usage()) to.usage = ReadUsage(from.usage(), check);
  to.can_stand_by = from.can_stand_by();
  return to;
}

Stop ReadStop(const v1::Stop& from, FieldChecker& check) {
  Stop to{check.Text("Stop.reason", from.reason(), kMaxTextBytes), LookId{from.look()}};
  check.Number("Stop.hung: number", from.hung_size(), 0, kMaxWorkersPerNode);
  for (const auto local_rank : from.hung()) {
    to.hung.push_back(LocalRank{check.Number("Stop.hung", local_rank, 0, kMaxWorkersPerNode - 1)});
  }
  return to;
}

Stopped ReadStopped(const v1::Stopped& from, FieldChecker& check) {
  Stopped to;
  if (from.has_start_ms()) to.start = check.Timeout("Stopped.start_ms", from.start_ms());
  to.offered_port = ReadPort("Stopped.offered_port", from.offered_port(), check);
  if (from.has_last_step()) to.last_step = check.Step("Stopped.last_step", from.last_step());
  to.fenced_at_ms = from.fenced_at_ms();
  to.states = ReadStates(from.states(), check);
  to.states_pending = from.states_pending();
  to.states_incomplete = from.states_incomplete();
  to.look.value = from.look();
  if (from.has_failed_checkpoints()) {
    to.failed_checkpoints = ReadFailed(from.failed_checkpoints(), kMaxCheckpointFailures, check);
  }
  if (from.has_stuck()) to.stuck = ReadStuck(from.stuck(), check);
  to.calls = ReadCalls(from.calls(), check);
  return to;
}

Assignment ReadAssignment(const v1::Assignment& from, FieldChecker& check) {
  Assignment to;
  to.node_count = check.Number("Assignment.node_count", from.node_count(), 1, kMaxNodes);
  to.node_rank.value = check.Number("Assignment.node_rank", from.node_rank(), 0, to.node_count - 1);
  to.world_size = check.Number("Assignment.world_size", from.world_size(), 1, kMaxWorldSize);
  to.first_rank.value =
      check.Number("Assignment.first_rank", from.first_rank(), 0, to.world_size - 1);
  to.master_addr = check.Name("Assignment.master_addr", from.master_addr(), kMaxHostBytes);
  to.master_port = ReadPort("Assignment.master_port", from.master_port(), check);
  to.restart_count =
      check.Number("Assignment.restart_count", from.restart_count(), 0, kMaxRestarts);
  to.max_restarts = check.Number("Assignment.max_restarts", from.max_restarts(), 0, kMaxRestarts);
  if (from.has_restore()) to.restore = ReadRestorePlan(from.restore(), to.world_size, check);
  to.run_id.value = from.run_id();
  to.agent_store = from.agent_store();
  to.secret = from.secret();
  if (!to.secret.empty() && to.secret.size() != kSecretBytes) {
    check.Fail(absl::StrCat("Assignment.secret has ", to.secret.size(), " bytes, expected ",
                            kSecretBytes, " or none"));
  }
  if (from.has_role()) to.role = ReadRolePlace(from.role(), to.world_size, check);
  return to;
}

RestartTimed ReadRestartTimed(const v1::RestartTimed& from, Generation generation,
                              FieldChecker& check) {
  RestartTimed to;
  to.times.generation = generation;
  to.times.warm_workers =
      check.Number("RestartTimed.warm_workers", from.warm_workers(), 0, kMaxWorkersPerNode);
  to.times.to_first_step = from.to_first_step();
  check.Number("RestartTimed.phases", from.phases_size(), 0, kMaxPhases);
  for (const v1::RestartTimed::Phase& phase : from.phases()) {
    if (!check.status().ok()) break;
    to.times.phases.push_back(
        {check.Text("RestartTimed.phases.name", phase.name(), kMaxPhaseBytes),
         check.Step("RestartTimed.phases.microseconds", phase.microseconds())});
  }
  return to;
}

}  // namespace

absl::StatusOr<FromAgent> FromProto(const v1::AgentMessage& message) {  // table
  FieldChecker check;
  FromAgent result{ReadHeader(message.header(), check), Heartbeat{}};
  switch (message.body_case()) {
    case v1::AgentMessage::kJoin:
      result.message = ReadJoin(message.join(), check);
      break;
    case v1::AgentMessage::kHeartbeat:
      result.message = ReadHeartbeat(message.heartbeat(), check);
      break;
    case v1::AgentMessage::kPrepared:
      result.message = AssignmentAck{};
      break;
    case v1::AgentMessage::kWorkerExited:
      result.message = ReadWorkerExited(message.worker_exited(), check);
      break;
    case v1::AgentMessage::kCheckpointed:
      result.message = Checkpointed{check.Step("Checkpointed.step", message.checkpointed().step())};
      break;
    case v1::AgentMessage::kCheckpointDamaged:
      result.message = CheckpointDamaged{
          check.Step("CheckpointDamaged.step", message.checkpoint_damaged().step()),
          check.Text("CheckpointDamaged.reason", message.checkpoint_damaged().reason(),
                     kMaxFailureReasonBytes)};
      break;
    case v1::AgentMessage::kCannotSave:
      result.message = CannotSave{};
      break;
    case v1::AgentMessage::kHeldStates:
      result.message = HeldStates{ReadStates(message.held_states().states(), check),
                                  LookId{message.held_states().look()},
                                  message.held_states().states_incomplete()};
      break;
    case v1::AgentMessage::kRestartTimed:
      result.message = ReadRestartTimed(message.restart_timed(), result.header.generation, check);
      break;
    case v1::AgentMessage::kDrained:
      result.message = ReadStopped(message.drained(), check);
      break;
    case v1::AgentMessage::kLeave:
      result.message =
          Leave{check.Text("Leave.reason", message.leave().reason(), kMaxTextBytes),
                check.Number("Leave.exit_code", message.leave().exit_code(), 0, kMaxExitCode)};
      break;
    case v1::AgentMessage::kPreempted:
      result.message =
          Preempted{check.Text("Preempted.reason", message.preempted().reason(), kMaxTextBytes)};
      break;
    case v1::AgentMessage::kStandbysReady:
      result.message = StandbysReady{};
      break;
    case v1::AgentMessage::kStoreElsewhere:
      result.message = StoreElsewhere{
          check.Text("StoreElsewhere.where", message.store_elsewhere().where(), kMaxHostBytes)};
      break;
    case v1::AgentMessage::kStacksTaken:
      result.message =
          StacksTaken{StackRequestId{message.stacks_taken().request()},
                      std::make_shared<const EncodedStackTree>(),
                      std::make_shared<const std::string>(message.stacks_taken().tree())};
      break;
    case v1::AgentMessage::kLogPiece:
      result.message = ReadLogPiece(message.log_piece(), check);
      break;
    case v1::AgentMessage::BODY_NOT_SET:
      check.Fail("AgentMessage.body is not set, or is one that this version does not know");
      break;
  }
  if (!check.status().ok()) return check.status();
  return result;
}

absl::StatusOr<Header> FromProto(const v1::GoneReport& report) {
  FieldChecker check;
  Header header = ReadHeader(report.header(), check);
  if (!check.status().ok()) return check.status();
  return header;
}

absl::StatusOr<FromRendezvous> FromProto(const v1::RendezvousMessage& message) {  // table
  FieldChecker check;
  FromRendezvous result{ReadHeader(message.header(), check), Start{}};
  switch (message.body_case()) {
    case v1::RendezvousMessage::kWaiting:
      result.message =
          Waiting{check.Text("Waiting.reason", message.waiting().reason(), kMaxTextBytes),
                  message.waiting().start_standbys()};
      break;
    case v1::RendezvousMessage::kAssignment:
      result.message = ReadAssignment(message.assignment(), check);
      break;
    case v1::RendezvousMessage::kStart:
      result.message = Start{};
      break;
    case v1::RendezvousMessage::kHeartbeatAck:
      result.message = HeartbeatAck{message.heartbeat_ack().sent_at()};
      break;
    case v1::RendezvousMessage::kSave:
      result.message = Save{};
      break;
    case v1::RendezvousMessage::kFenced:
      result.message =
          Fenced{check.Text("Fenced.reason", message.fenced().reason(), kMaxTextBytes)};
      break;
    case v1::RendezvousMessage::kStop:
      result.message = ReadStop(message.stop(), check);
      break;
    case v1::RendezvousMessage::kFinished:
      result.message = ReadFinished(message.finished(), check);
      break;
    case v1::RendezvousMessage::kRefused:
      result.message =
          Refused{check.Text("Refused.reason", message.refused().reason(), kMaxTextBytes)};
      break;
    case v1::RendezvousMessage::kWarning:
      result.message = Warning{check.Text("Warning.text", message.warning().text(), kMaxTextBytes)};
      break;
    case v1::RendezvousMessage::kLookAgain:
      result.message =
          LookAgain{LookId{message.look_again().look()}, RunId{message.look_again().run_id()}};
      break;
    case v1::RendezvousMessage::kTakeStacks:
      result.message = TakeStacks{StackRequestId{message.take_stacks().request()}};
      break;
    case v1::RendezvousMessage::kHangStacks:
      result.message = HangReported{
          std::make_shared<const HangStacks>(ReadHangStacks(message.hang_stacks(), check))};
      break;
    case v1::RendezvousMessage::kLogOrder:
      result.message = ReadLogOrder(message.log_order(), check);
      break;
    case v1::RendezvousMessage::BODY_NOT_SET:
      check.Fail("RendezvousMessage.body is not set, or is one that this version does not know");
      break;
  }
  if (!check.status().ok()) return check.status();
  return result;
}

}  // namespace ddprun::wire
