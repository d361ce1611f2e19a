// JobMachine: what it says, and to whom.
#include <algorithm>
#include <utility>

#include "rendezvous/machine/job_machine.h"

namespace ddprun {

bool JobMachine::HasHost(const std::string& host) const {
  return std::any_of(roster_.nodes().begin(), roster_.nodes().end(), [&](const Node& node) {
    return node.spec.host == host || node.spec.address == host;
  });
}

JobStatus JobMachine::Status(TimePoint now) const {
  JobView view = View();
  view.now = now;
  JobStatus status = StatusOf(view);
  AddProgress(&status, now);
  return status;
}

JobView JobMachine::View() const {
  return {job_,
          state_,
          now_,
          state_since_,
          life_,
          generation_,
          newest_generation(),
          roster_,
          timeline_,
          hold_until_.has_value(),
          states_wait_.has_value(),
          finished_};
}

Assignment JobMachine::AssignmentOf(const Node& node) const {
  Assignment assignment;
  assignment.node_rank = node.rank;
  assignment.node_count = static_cast<int>(roster_.members().size());
  assignment.first_rank = node.first_rank;
  assignment.world_size = generation_.tally.world_size;
  assignment.master_addr = generation_.master_addr;
  assignment.master_port = generation_.master_port;
  assignment.restart_count = restarts_used();
  assignment.max_restarts = life_.spec->max_restarts;
  assignment.restore = generation_.restore;
  assignment.run_id = life_.run_id;
  assignment.agent_store = UsesAgentStore();
  assignment.role = node.role.place;
  return assignment;
}

bool JobMachine::UsesAgentStore() const {
  return life_.spec->store == kAgentStore && !life_.needs_worker_store;
}

Header JobMachine::HeaderFor(const Node& node) const {
  return {job_, life_.requeue_number, generation_.number, node.agent_id};
}

void JobMachine::SendTo(const Node& node, RendezvousMessage message) {
  actions_.push_back(Send{HeaderFor(node), std::move(message)});
}

void JobMachine::Reply(const Header& header, RendezvousMessage message) {
  actions_.push_back(Send{header, std::move(message)});
}

void JobMachine::SaveRecord() {
  actions_.emplace_back(std::in_place_type<Persist>, Persist{Record()});
}

void JobMachine::Emit(JobEvent event) {
  event.requeue_number = life_.requeue_number;
  event.generation = generation_.number;
  actions_.push_back(Happened{std::move(event)});
}

void JobMachine::Log(std::string text) { actions_.push_back(Note{std::move(text)}); }

}  // namespace ddprun
