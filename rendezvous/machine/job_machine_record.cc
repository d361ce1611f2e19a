// JobMachine: writing and reading its JobRecord.
#include <utility>

#include "rendezvous/machine/job_machine.h"

namespace ddprun {

JobRecord JobMachine::Record() const {
  JobRecord record{life_, generation_};  // their persisted base classes
  record.spec = *life_.spec;
  record.generation = generation_.number;
  for (const Node* const node : roster_.members()) {
    // Includes members whose workers are gone: they repeat Stopped to the rendezvous that reads
    // this record.
    if (node != nullptr) record.members.push_back(*node);
  }
  record.governor = life_.governor->Record(now_);
  record.timeline = timeline_.points();
  record.failed_checkpoints = life_.failures.Record();
  record.quarantine = life_.quarantine->Record(now_);
  record.longest_intervals = life_.progress.intervals.longest();
  record.finished = finished_;
  return record;
}

namespace {

Node NodeOf(const NodeRecord& member) {
  Node node;
  static_cast<NodeRecord&>(node) = member;
  node.phase = Phase::kStarted;
  node.suspect = true;
  return node;
}

}  // namespace

JobMachine::JobMachine(std::string job, const JobRecord& record, TimePoint now,
                       JobMachineOptions options)
    : job_(std::move(job)),
      options_(options),
      generation_(record.generation),
      timeline_(record.timeline),
      finished_(record.finished) {
  now_ = now;
  survey_.LoseSight(now_);  // earlier looks answered another rendezvous
  static_cast<LifeRecord&>(life_) = record;
  static_cast<GenerationRecord&>(generation_) = record;
  life_.stage = {JobState::kRunning, now};
  life_.spec = record.spec;
  life_.progress.intervals = PhaseIntervals(record.longest_intervals);
  life_.progress.any = !record.longest_intervals.empty();
  life_.has_states = record.restore.has_value();
  life_.failures = FailureTally(record.failed_checkpoints);
  if (record.checkpoint) life_.state_times.checkpoint = now;
  life_.state_times.start = now;
  life_.governor.emplace(PolicyOf(*life_.spec), record.governor, now);
  life_.quarantine.emplace(life_.spec->quarantine, life_.spec->quarantine_window, record.quarantine,
                           now);
  generation_.started_at = now;
  generation_.hang.Begin(now);
  if (record.restore) {
    timeline_.Resume({record.requeue_number, record.generation, record.restore->highest_step()});
  }
  // The workers may have been told to start, so they count as started. A node that was not told
  // gets Start when it comes back.
  for (const NodeRecord& member : record.members) {
    generation_.tally.world_size += member.spec.worker_count;
    roster_.RestoreMember(NodeOf(member), now);
  }
  if (finished_) {
    const bool succeeded = finished_->outcome == Outcome::kSucceeded;
    life_.stage.state = succeeded ? JobState::kSucceeded : JobState::kFailed;
  } else if (record.members.empty()) {  // recorded before the first forming, or all members are
                                        // lost
    life_.stage = {JobState::kGathering, now, now + life_.spec->join_timeout};
    // Workers of the earlier life may run for one whole lease from now.
    if (options_.leases) HoldUntil(LeaseEnd(now));
  }
  if (!finished_ && MayRunUnknown()) HoldUntil(LeaseEnd(TimePoint::min()));
}

}  // namespace ddprun
