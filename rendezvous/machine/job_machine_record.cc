// JobMachine: what of it outlives its process, written and read.
#include <utility>

#include "rendezvous/machine/job_machine.h"

namespace ddprun {

JobRecord JobMachine::Record() const {
  JobRecord record;
  record.requeue_number = life_.requeue_number;
  record.spec = *life_.spec;
  record.generation = generation_.number;
  record.master_addr = generation_.master_addr;
  record.master_port = generation_.master_port;
  for (const Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    // Also one whose workers are gone by now: it says so again to the rendezvous that reads this.
    record.members.push_back({node->agent_id, node->spec, node->offered_port, node->rank,
                              node->first_rank, node->removed, node->role.place});
  }
  record.governor = life_.governor->Record(now_);
  record.causes = life_.causes;
  record.reports_checkpoints = life_.reports_checkpoints;
  record.checkpoint = life_.checkpoint;
  if (life_.plan) {
    record.plan = {life_.plan->stop, life_.plan->save, life_.plan->reason, life_.plan->saved,
                   life_.plan->preempted};
  }
  record.restore = generation_.restore;
  record.timeline = timeline_.points();
  record.failed_checkpoints = life_.failures.Record();
  record.quarantine = life_.quarantine->Record(now_);
  record.run_id = life_.run_id;
  record.needs_worker_store = life_.needs_worker_store;
  record.longest_intervals = life_.progress.intervals.longest();
  record.finished = finished_;
  return record;
}

namespace {

Node NodeOf(const NodeRecord& member) {
  Node node;
  node.agent_id = member.agent_id;
  node.spec = member.spec;
  node.offered_port = member.offered_port;
  node.rank = member.rank;
  node.first_rank = member.first_rank;
  node.phase = Phase::kStarted;
  node.suspect = true;
  node.removed = member.removed;
  node.role.place = member.role;
  return node;
}

}  // namespace

JobMachine::JobMachine(std::string job, const JobRecord& record, TimePoint now,
                       JobMachineOptions options)
    : job_(std::move(job)),
      options_(options),
      state_(JobState::kRunning),
      state_since_(now),
      life_(record.requeue_number),
      generation_(record.generation),
      timeline_(record.timeline),
      finished_(record.finished) {
  now_ = now;
  survey_.LoseSight(now_);  // whatever agents looked at, they did so for another rendezvous
  life_.spec = record.spec;
  life_.causes = record.causes;
  life_.run_id = record.run_id;
  life_.needs_worker_store = record.needs_worker_store;
  life_.progress.intervals = PhaseIntervals(record.longest_intervals);
  life_.progress.any = !record.longest_intervals.empty();
  life_.reports_checkpoints = record.reports_checkpoints;
  life_.checkpoint = record.checkpoint;
  life_.has_states = record.restore.has_value();
  life_.failures = FailureTally(record.failed_checkpoints);
  generation_.master_addr = record.master_addr;
  generation_.master_port = record.master_port;
  generation_.restore = record.restore;
  generation_.started_at = now;
  generation_.hang.Begin(now);
  if (record.restore) {
    timeline_.Resume({record.requeue_number, record.generation, record.restore->step()});
  }
  life_.governor.emplace(PolicyOf(*life_.spec), record.governor, now);
  life_.quarantine.emplace(life_.spec->quarantine, life_.spec->quarantine_window, record.quarantine,
                           now);
  // The workers may have been told to start: it is treated as if they were, and whoever was not is
  // told when he comes back.
  for (const NodeRecord& member : record.members) {
    generation_.tally.world_size += member.spec.worker_count;
    roster_.RestoreMember(NodeOf(member), now);
  }
  if (record.plan) {
    life_.plan = Plan{.stop = record.plan->stop,
                      .save = record.plan->save,
                      .saved = record.plan->saved,
                      .preempted = record.plan->preempted,
                      .reason = record.plan->reason};
  }
  if (finished_) {
    state_ = finished_->outcome == Outcome::kSucceeded ? JobState::kSucceeded : JobState::kFailed;
  } else if (record.members.empty()) {  // recorded before a first forming, or all are lost
    state_ = JobState::kGathering;
    timers_.state = now + life_.spec->join_timeout;
    // Workers of the life before may live as long as any that this rendezvous has not heard of.
    if (options_.leases) hold_until_ = now + life_.spec->lease;
  }
}

}  // namespace ddprun
