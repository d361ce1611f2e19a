#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/exit_status.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/translate.h"

namespace ddprun::wire {
namespace {

constexpr std::int64_t kMaxInt32 = INT32_MAX;

// Takes fields one by one and remembers the first that is out of bounds. A value that it returns is
// in bounds as long as status() is ok.
class FieldChecker {
 public:
  int Number(const char* field, std::int64_t value, std::int64_t min, std::int64_t max) {
    if (value < min || value > max) {
      Fail(absl::StrCat(field, " is ", value, ", expected ", min, " to ", max));
      return static_cast<int>(min);
    }
    return static_cast<int>(value);
  }

  // A name: not empty, and printable, since it goes into logs and paths.
  std::string Name(const char* field, const std::string& value, std::size_t max_bytes) {
    if (value.empty()) Fail(absl::StrCat(field, " is empty"));
    const bool printable = std::none_of(value.begin(), value.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    });
    if (!printable) Fail(absl::StrCat(field, " contains a control character"));
    return Text(field, value, max_bytes);
  }

  std::string Text(const char* field, const std::string& value, std::size_t max_bytes) {
    if (value.size() > max_bytes) {
      Fail(absl::StrCat(field, " has ", value.size(), " bytes, expected at most ", max_bytes));
      return {};
    }
    return value;
  }

  std::int64_t Step(const char* field, std::int64_t value) {
    if (value < 0) Fail(absl::StrCat(field, " is ", value, ", expected 0 or more"));
    return value;
  }

  Duration Timeout(const char* field, std::int64_t value_ms,
                   std::chrono::milliseconds min = std::chrono::milliseconds(0),
                   std::chrono::milliseconds max = kMaxTimeout) {
    if (value_ms < min.count() || value_ms > max.count()) {
      Fail(absl::StrCat(field, " is ", value_ms, ", expected ", min.count(), " to ", max.count()));
      return {};
    }
    return std::chrono::milliseconds(value_ms);
  }

  void Fail(std::string what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(what);
  }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

Header ReadHeader(const v1::Header& from, FieldChecker& check) {
  Header to;
  to.job = check.Name("Header.job", from.job(), kMaxJobBytes);
  to.epoch = from.epoch();
  to.generation.value = check.Number("Header.generation", from.generation(), -1, kMaxGeneration);
  to.incarnation.value = from.incarnation();
  if (to.incarnation.value == 0) check.Fail("Header.incarnation is 0, expected a random number");
  return to;
}

int ReadPort(const char* field, std::uint32_t port, FieldChecker& check) {
  return check.Number(field, port, 1, kMaxPort);
}

Join ReadJoin(const v1::Join& from, FieldChecker& check) {
  Join to;
  const v1::JobSpec& job = from.job();
  to.job.min_nodes = check.Number("JobSpec.min_nodes", job.min_nodes(), 1, kMaxNodes);
  to.job.max_nodes =
      check.Number("JobSpec.max_nodes", job.max_nodes(), to.job.min_nodes, kMaxNodes);
  to.job.max_restarts = check.Number("JobSpec.max_restarts", job.max_restarts(), 0, kMaxRestarts);
  to.job.join_timeout = check.Timeout("JobSpec.join_timeout_ms", job.join_timeout_ms());
  to.job.last_call = check.Timeout("JobSpec.last_call_ms", job.last_call_ms());
  to.job.heartbeat =
      check.Timeout("JobSpec.heartbeat_ms", job.heartbeat_ms(), kMinHeartbeat, kMaxHeartbeat);
  to.job.lease = check.Timeout("JobSpec.lease_ms", job.lease_ms(), 3 * kMinHeartbeat, kMaxLease);
  to.job.save_timeout = check.Timeout("JobSpec.save_timeout_ms", job.save_timeout_ms());
  if (job.has_restart_window_ms()) {
    to.job.restart_window = check.Timeout("JobSpec.restart_window_ms", job.restart_window_ms());
  }
  check.Number("JobSpec.never_restart_on: number of codes", job.never_restart_on_size(), 0,
               kMaxNeverRestartOn);
  for (const std::uint32_t code : job.never_restart_on()) {
    to.job.never_restart_on.push_back(
        check.Number("JobSpec.never_restart_on", code, 0, kMaxExitCode));
  }
  to.job.master_port = check.Number("JobSpec.master_port", job.master_port(), 0, kMaxPort);
  if (!job.master_addr().empty()) {
    to.job.master_addr = check.Name("JobSpec.master_addr", job.master_addr(), kMaxHostBytes);
  }
  const v1::NodeSpec& node = from.node();
  to.node.host = check.Name("NodeSpec.host", node.host(), kMaxHostBytes);
  to.node.address = check.Name("NodeSpec.address", node.address(), kMaxHostBytes);
  to.node.worker_count =
      check.Number("NodeSpec.worker_count", node.worker_count(), 1, kMaxWorkersPerNode);
  if (node.has_requested_rank()) {
    to.node.requested_rank = NodeRank{
        check.Number("NodeSpec.requested_rank", node.requested_rank(), 0, to.job.max_nodes - 1)};
  }
  to.offered_port = ReadPort("Join.offered_port", from.offered_port(), check);
  to.workers_running = from.workers_running();
  return to;
}

Heartbeat ReadHeartbeat(const v1::Heartbeat& from, FieldChecker& check) {
  Heartbeat to{from.sent_at(), {}};
  if (from.has_step()) to.step = check.Step("Heartbeat.step", from.step());
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

Drained ReadDrained(const v1::Drained& from, FieldChecker& check) {
  Drained to;
  to.offered_port = ReadPort("Drained.offered_port", from.offered_port(), check);
  if (from.has_last_step()) to.last_step = check.Step("Drained.last_step", from.last_step());
  to.fenced_at_ms = from.fenced_at_ms();
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
  return to;
}

Outcome ReadOutcome(v1::Outcome outcome, FieldChecker& check) {
  switch (outcome) {
    case v1::OUTCOME_SUCCEEDED:
      return Outcome::kSucceeded;
    case v1::OUTCOME_FAILED:
      return Outcome::kFailed;
    case v1::OUTCOME_LEFT:
      return Outcome::kLeft;
    case v1::OUTCOME_TIMED_OUT:
      return Outcome::kTimedOut;
    case v1::OUTCOME_PREEMPTED:
      return Outcome::kPreempted;
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
  return to;
}

}  // namespace

absl::StatusOr<FromAgent> FromProto(const v1::AgentMessage& message) {
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
      result.message = Prepared{};
      break;
    case v1::AgentMessage::kWorkerExited:
      result.message = ReadWorkerExited(message.worker_exited(), check);
      break;
    case v1::AgentMessage::kCheckpointed:
      result.message = Checkpointed{check.Step("Checkpointed.step", message.checkpointed().step())};
      break;
    case v1::AgentMessage::kCannotSave:
      result.message = CannotSave{};
      break;
    case v1::AgentMessage::kDrained:
      result.message = ReadDrained(message.drained(), check);
      break;
    case v1::AgentMessage::kLeave:
      result.message =
          Leave{check.Text("Leave.reason", message.leave().reason(), kMaxTextBytes),
                check.Number("Leave.exit_code", message.leave().exit_code(), 0, kMaxExitCode)};
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

absl::StatusOr<FromRendezvous> FromProto(const v1::RendezvousMessage& message) {
  FieldChecker check;
  FromRendezvous result{ReadHeader(message.header(), check), Start{}};
  switch (message.body_case()) {
    case v1::RendezvousMessage::kWaiting:
      result.message =
          Waiting{check.Text("Waiting.reason", message.waiting().reason(), kMaxTextBytes)};
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
      result.message = Stop{check.Text("Stop.reason", message.stop().reason(), kMaxTextBytes)};
      break;
    case v1::RendezvousMessage::kFinished:
      result.message = ReadFinished(message.finished(), check);
      break;
    case v1::RendezvousMessage::kRefused:
      result.message =
          Refused{check.Text("Refused.reason", message.refused().reason(), kMaxTextBytes)};
      break;
    case v1::RendezvousMessage::BODY_NOT_SET:
      check.Fail("RendezvousMessage.body is not set, or is one that this version does not know");
      break;
  }
  if (!check.status().ok()) return check.status();
  return result;
}

}  // namespace ddprun::wire
