#include "rendezvous/wire/record.h"

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ddprun/v1/journal.pb.h"
#include "rendezvous/hangs/hang_watch.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/parts.h"
#include "rendezvous/wire/text.h"

namespace ddprun::wire {
namespace {

constexpr char kJobPrefix[] = "job/";

std::int64_t WholeMilliseconds(Duration duration) {
  return std::chrono::floor<std::chrono::milliseconds>(duration).count();
}

// `rank`, `first_rank`: the lowest valid values at this place.
NodeRecord ReadNode(const v1::NodeRecord& from, int rank, int first_rank, int max_nodes,
                    FieldChecker& check) {
  NodeRecord to;
  to.agent_id.value = from.incarnation();
  if (from.incarnation() == 0) check.Fail("NodeRecord.incarnation is 0");
  to.spec = ReadNodeSpec(from.spec(), max_nodes, check);
  to.offered_port = check.Number("NodeRecord.offered_port", from.offered_port(), 1, kMaxPort);
  // Node ranks have gaps if a node was lost before the record was made.
  to.rank.value = check.Number("NodeRecord.node_rank", from.node_rank(), rank, max_nodes - 1);
  to.first_rank.value =
      check.Number("NodeRecord.first_rank", from.first_rank(), first_rank, kMaxWorldSize - 1);
  to.removed = from.dismissed();
  if (from.has_role()) to.role = ReadRolePlace(from.role(), kMaxWorldSize, check);
  return to;
}

GovernorRecord ReadGovernor(const v1::GovernorRecord& from, FieldChecker& check) {
  GovernorRecord to;
  to.restarts_used =
      check.Number("GovernorRecord.restarts_used", from.restarts_used(), 0, kMaxRestarts);
  for (const std::int64_t age : from.recent_ages_ms()) {
    to.recent_ages.push_back(check.Timeout("GovernorRecord.recent_ages_ms", age));
  }
  to.crashes = check.Number("GovernorRecord.crashes", from.crashes(), 0, kMaxGeneration);
  to.stepless = check.Number("GovernorRecord.stepless", from.stepless(), 0, kMaxGeneration);
  if (from.has_furthest_step())
    to.furthest_step = check.Step("GovernorRecord.furthest_step", from.furthest_step());
  if (from.has_start_ms()) to.start = check.Timeout("GovernorRecord.start_ms", from.start_ms());
  to.membership_changes = check.Number("GovernorRecord.membership_changes",
                                       from.membership_changes(), 0, kMaxGeneration);
  for (const std::int64_t age : from.membership_ages_ms()) {
    to.membership_ages.push_back(check.Timeout("GovernorRecord.membership_ages_ms", age));
  }
  to.bind_retries =
      check.Number("GovernorRecord.bind_retries", from.bind_retries(), 0, kMaxGeneration);
  to.random_state = from.random_state();
  return to;
}

void FillGovernor(const GovernorRecord& from, v1::GovernorRecord* to) {
  to->set_restarts_used(from.restarts_used);
  for (const Duration age : from.recent_ages) {
    to->add_recent_ages_ms(WholeMilliseconds(age));
  }
  to->set_crashes(from.crashes);
  to->set_stepless(from.stepless);
  if (from.furthest_step) to->set_furthest_step(*from.furthest_step);
  if (from.start) to->set_start_ms(WholeMilliseconds(*from.start));
  to->set_membership_changes(from.membership_changes);
  for (const Duration age : from.membership_ages) {
    to->add_membership_ages_ms(WholeMilliseconds(age));
  }
  to->set_bind_retries(from.bind_retries);
  to->set_random_state(from.random_state);
}

void ReadMembers(const v1::JobRecord& from, JobRecord* to, FieldChecker& check) {
  int rank = 0;
  int first_rank = 0;
  for (const v1::NodeRecord& member : from.members()) {
    to->members.push_back(ReadNode(member, rank, first_rank, to->spec.max_nodes, check));
    rank = to->members.back().rank.value + 1;
    first_rank = to->members.back().first_rank.value + to->members.back().spec.worker_count;
  }
}

std::vector<ResumePoint> ReadTimeline(const v1::JobRecord& from, FieldChecker& check) {
  std::vector<ResumePoint> to;
  check.Number("JobRecord.timeline: number", from.timeline_size(), 0, Timeline::kMaxPoints);
  for (const v1::ResumePoint& point : from.timeline()) {
    to.push_back(
        {point.epoch(),
         Generation{check.Number("ResumePoint.generation", point.generation(), 0, kMaxGeneration)},
         check.Step("ResumePoint.step", point.step())});
  }
  return to;
}

FailureRecord ReadFailures(const v1::JobRecord& from, FieldChecker& check) {
  FailureRecord to;
  if (from.has_failed_checkpoints()) {
    to.total = ReadFailed(from.failed_checkpoints(), kMaxFailedCheckpoints, check);
  }
  check.Number("JobRecord.told_failures: number", from.told_failures_size(), 0,
               FailureTally::kMaxAgents);
  for (const v1::ToldFailures& told : from.told_failures()) {
    to.told.push_back({AgentId{told.incarnation()}, check.Number("ToldFailures.count", told.count(),
                                                                 1, kMaxCheckpointFailures)});
  }
  return to;
}

std::map<std::string, Duration> ReadIntervals(const v1::JobRecord& from, FieldChecker& check) {
  std::map<std::string, Duration> to;
  check.Number("JobRecord.longest_intervals: number", from.longest_intervals_size(), 0,
               PhaseIntervals::kMaxPhases);
  for (const v1::PhaseInterval& interval : from.longest_intervals()) {
    to[check.Text("PhaseInterval.phase", interval.phase(), kMaxPhaseBytes)] =
        check.Timeout("PhaseInterval.longest_ms", interval.longest_ms());
  }
  return to;
}

void FillPlan(const Plan& from, v1::PlanRecord* to) {
  to->set_stop(from.stop);
  to->set_save(from.save);
  to->set_reason(CleanText(from.reason, kMaxTextBytes));
  to->set_saved(from.saved);
  to->set_preempted(from.preempted);
  to->set_for_store(from.for_store);
}

Plan ReadPlan(const v1::PlanRecord& from, FieldChecker& check) {
  Plan to;
  to.stop = from.stop();
  to.save = from.save();
  to.reason = check.Text("PlanRecord.reason", from.reason(), kMaxTextBytes);
  to.saved = from.saved();
  to.preempted = from.preempted();
  to.for_store = from.for_store();
  return to;
}

void FillQuarantine(const QuarantineRecord& from, v1::JobRecord* to) {
  for (const Blame& blame : from.blames) {
    v1::Blame* const added = to->add_blames();
    added->set_host(CleanText(blame.host, kMaxHostBytes));
    added->set_age_ms(WholeMilliseconds(blame.age));
  }
  for (const std::string& host : from.hosts) {
    to->add_left_out(CleanText(host, kMaxHostBytes));
  }
  for (const std::string& host : from.hangs) {
    to->add_hangs(CleanText(host, kMaxHostBytes));
  }
}

QuarantineRecord ReadQuarantine(const v1::JobRecord& from, FieldChecker& check) {
  QuarantineRecord to;
  check.Number("JobRecord.blames: number", from.blames_size(), 0, Quarantine::kMaxBlames);
  for (const v1::Blame& blame : from.blames()) {
    to.blames.push_back({check.Name("Blame.host", blame.host(), kMaxHostBytes),
                         check.Timeout("Blame.age_ms", blame.age_ms())});
  }
  to.hosts = ReadExcluded(from.left_out(), check);
  check.Number("JobRecord.hangs: number", from.hangs_size(), 0, Quarantine::kMaxBlames);
  for (const std::string& host : from.hangs()) {
    to.hangs.push_back(check.Name("JobRecord.hangs", host, kMaxHostBytes));
  }
  return to;
}

}  // namespace

std::string JobKey(const std::string& job) { return absl::StrCat(kJobPrefix, job); }

std::optional<std::string> JobOfKey(const std::string& key) {
  if (!absl::StartsWith(key, kJobPrefix)) return std::nullopt;
  return key.substr(sizeof kJobPrefix - 1);
}

std::string EncodeRecord(const std::string& owner, const JobRecord& record) {
  v1::JobRecord proto;
  proto.set_epoch(record.requeue_number);
  proto.set_owner(owner);
  Fill(record.spec, proto.mutable_spec());
  proto.set_generation(record.generation.value);
  proto.set_master_addr(record.master_addr);
  proto.set_master_port(record.master_port);
  for (const NodeRecord& member : record.members) {
    v1::NodeRecord* const to = proto.add_members();
    to->set_incarnation(member.agent_id.value);
    Fill(member.spec, to->mutable_spec());
    to->set_offered_port(member.offered_port);
    to->set_node_rank(member.rank.value);
    to->set_first_rank(member.first_rank.value);
    to->set_dismissed(member.removed);
    if (member.role.world_size > 0) Fill(member.role, to->mutable_role());
  }
  FillGovernor(record.governor, proto.mutable_governor());
  for (const RootCause& cause : record.causes) Fill(cause, proto.add_causes());
  proto.set_reports_checkpoints(record.reports_checkpoints);
  if (record.checkpoint) proto.set_checkpoint(*record.checkpoint);
  if (record.checkpoint_generation.value >= 0) {
    proto.set_checkpoint_generation(record.checkpoint_generation.value);
  }
  if (record.plan) FillPlan(*record.plan, proto.mutable_plan());
  if (record.restore) Fill(*record.restore, proto.mutable_restore());
  for (const ResumePoint& point : record.timeline) {
    v1::ResumePoint* const to = proto.add_timeline();
    to->set_epoch(point.requeue_number);
    to->set_generation(point.generation.value);
    to->set_step(point.step);
  }
  FillIfAny(record.failed_checkpoints.total, &proto);
  for (const ToldFailures& told : record.failed_checkpoints.told) {
    v1::ToldFailures* const to = proto.add_told_failures();
    to->set_incarnation(told.agent.value);
    to->set_count(told.count);
  }
  FillQuarantine(record.quarantine, &proto);
  proto.set_run_id(record.run_id.value);
  proto.set_needs_worker_store(record.needs_worker_store);
  for (const auto& [phase, longest] : record.longest_intervals) {
    v1::PhaseInterval* const to = proto.add_longest_intervals();
    to->set_phase(CleanText(phase, kMaxPhaseBytes));
    to->set_longest_ms(WholeMilliseconds(longest));
  }
  if (record.finished) Fill(*record.finished, proto.mutable_finished());
  return proto.SerializeAsString();
}

absl::StatusOr<OwnedRecord> DecodeRecord(const std::string& bytes) {
  v1::JobRecord proto;
  if (!proto.ParseFromString(bytes)) return absl::DataLossError("it is no JobRecord");
  FieldChecker check;
  OwnedRecord owned;
  owned.owner = check.Text("JobRecord.owner", proto.owner(), kMaxTextBytes);
  JobRecord& record = owned.record;
  record.requeue_number = proto.epoch();
  record.spec = ReadJobSpec(proto.spec(), check);
  record.generation.value =
      check.Number("JobRecord.generation", proto.generation(), -1, kMaxGeneration);
  record.master_addr = check.Text("JobRecord.master_addr", proto.master_addr(), kMaxHostBytes);
  record.master_port = check.Number("JobRecord.master_port", proto.master_port(), 0, kMaxPort);
  ReadMembers(proto, &record, check);
  record.governor = ReadGovernor(proto.governor(), check);
  check.Number("JobRecord.causes: number", proto.causes_size(), 0, kMaxEarlierCauses);
  for (const v1::RootCause& cause : proto.causes()) {
    record.causes.push_back(ReadRootCause(cause, check));
  }
  record.reports_checkpoints = proto.reports_checkpoints();
  if (proto.has_checkpoint())
    record.checkpoint = check.Step("JobRecord.checkpoint", proto.checkpoint());
  if (proto.has_checkpoint_generation()) {
    record.checkpoint_generation.value = check.Number(
        "JobRecord.checkpoint_generation", proto.checkpoint_generation(), 0, kMaxGeneration);
  }
  if (proto.has_plan()) record.plan = ReadPlan(proto.plan(), check);
  if (proto.has_restore()) {
    record.restore = ReadRestorePlan(proto.restore(), kMaxWorldSize, check);
  }
  record.timeline = ReadTimeline(proto, check);
  record.failed_checkpoints = ReadFailures(proto, check);
  record.quarantine = ReadQuarantine(proto, check);
  record.run_id.value = proto.run_id();
  record.needs_worker_store = proto.needs_worker_store();
  record.longest_intervals = ReadIntervals(proto, check);
  if (proto.has_finished()) record.finished = ReadFinished(proto.finished(), check);
  if (!check.status().ok()) return absl::DataLossError(check.status().message());
  return owned;
}

}  // namespace ddprun::wire
