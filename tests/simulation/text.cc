#include "tests/simulation/text.h"

#include "absl/strings/str_cat.h"
#include "worker/contract/overloaded.h"

namespace ddprun::sim {

std::string Text(const Header& header) {
  return absl::StrCat("[e", header.requeue_number, " g", header.generation.value, " ",
                      header.agent_id.value, "]");
}

std::string Text(const AgentMessage& message) {
  return std::visit(
      Overloaded{
          [](const Join& join) {
            return absl::StrCat("Join ", join.node.host, join.workers_running ? " running" : "");
          },
          [](const Heartbeat& heartbeat) {
            return absl::StrCat("Heartbeat ", heartbeat.sent_at,
                                heartbeat.step ? absl::StrCat(" step ", *heartbeat.step) : "");
          },
          [](const AssignmentAck&) { return std::string("AssignmentAck"); },
          [](const WorkerExited& exit) {
            return absl::StrCat("WorkerExited rank ", exit.rank.value, ": ",
                                exit.status.Describe());
          },
          [](const Checkpointed& checkpointed) {
            return absl::StrCat("Checkpointed ", checkpointed.step);
          },
          [](const CheckpointDamaged&) { return std::string("CheckpointDamaged"); },
          [](const CannotSave&) { return std::string("CannotSave"); },
          [](const Preempted&) { return std::string("Preempted"); },
          [](const StandbysReady&) { return std::string("StandbysReady"); },
          [](const StoreElsewhere&) { return std::string("StoreElsewhere"); },
          [](const HeldStates&) { return std::string("HeldStates"); },
          [](const StacksTaken&) { return std::string("StacksTaken"); },
          [](const LogPiece&) { return std::string("LogPiece"); },
          [](const RestartTimed&) { return std::string("RestartTimed"); },
          [](const Stopped& drained) {
            return absl::StrCat("Stopped", drained.fenced_at_ms != 0 ? ", fenced" : "");
          },
          [](const Leave& leave) { return absl::StrCat("Leave ", leave.exit_code); },
      },
      message);
}

std::string Text(const RendezvousMessage& message) {
  return std::visit(
      Overloaded{
          [](const Waiting&) { return std::string("Waiting"); },
          [](const HeartbeatAck& ack) { return absl::StrCat("HeartbeatAck ", ack.sent_at); },
          [](const Assignment& assignment) {
            return absl::StrCat("Assignment node ", assignment.node_rank.value, " of ",
                                assignment.node_count, ", ranks from ", assignment.first_rank.value,
                                " of ", assignment.world_size);
          },
          [](const Start&) { return std::string("Start"); },
          [](const Save&) { return std::string("Save"); },
          [](const Stop& stop) { return absl::StrCat("Stop: ", stop.reason); },
          [](const Finished& end) { return absl::StrCat("Finished ", end.exit_code); },
          [](const Fenced& fenced) { return absl::StrCat("Fenced: ", fenced.reason); },
          [](const Refused& refused) { return absl::StrCat("Refused: ", refused.reason); },
          [](const Warning& warning) { return absl::StrCat("Warning: ", warning.text); },
          [](const LookAgain&) { return std::string("LookAgain"); },
          [](const TakeStacks&) { return std::string("TakeStacks"); },
          [](const HangReported&) { return std::string("HangStacks"); },
          [](const LogOrder&) { return std::string("LogOrder"); },
      },
      message);
}

std::string Text(const JobEvent& event) {
  return absl::StrCat(ToString(event.kind), " generation ", event.generation.value,
                      event.host.empty() ? "" : " ", event.host, event.reason.empty() ? "" : ": ",
                      event.reason);
}

}  // namespace ddprun::sim
