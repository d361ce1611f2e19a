// Translates an agent's observations of its processes (rendezvous/core/progress.h).
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/wire/parts.h"
#include "rendezvous/wire/text.h"

namespace ddprun::wire {
namespace {

v1::ProcessState StateToProto(ProcessState state) {
  switch (state) {
    case ProcessState::kRunnable:
      return v1::PROCESS_STATE_RUNNABLE;
    case ProcessState::kStopped:
      return v1::PROCESS_STATE_STOPPED;
    case ProcessState::kTraced:
      return v1::PROCESS_STATE_TRACED;
    case ProcessState::kDiskWait:
      return v1::PROCESS_STATE_DISK_WAIT;
  }
  return v1::PROCESS_STATE_RUNNABLE;
}

// An unknown value, from a later version, becomes kRunnable.
ProcessState ReadState(v1::ProcessState state) {
  switch (state) {
    case v1::PROCESS_STATE_STOPPED:
      return ProcessState::kStopped;
    case v1::PROCESS_STATE_TRACED:
      return ProcessState::kTraced;
    case v1::PROCESS_STATE_DISK_WAIT:
      return ProcessState::kDiskWait;
    default:
      return ProcessState::kRunnable;
  }
}

void FillCall(const CollectiveCall& from, v1::CollectiveCall* to) {
  to->set_group(CleanText(from.group, kMaxOperationBytes));
  to->set_sequence(from.sequence);
  to->set_operation(CleanText(from.operation, kMaxOperationBytes));
  to->set_bytes(from.bytes);
  if (from.bucket) to->set_bucket(*from.bucket);
}

CollectiveCall ReadCall(const v1::CollectiveCall& from, FieldChecker& check) {
  CollectiveCall to;
  to.group = check.Text("CollectiveCall.group", from.group(), kMaxOperationBytes);
  to.sequence = check.Step("CollectiveCall.sequence", from.sequence());
  to.operation = check.Text("CollectiveCall.operation", from.operation(), kMaxOperationBytes);
  to.bytes = check.Step("CollectiveCall.bytes", from.bytes());
  if (from.has_bucket()) {
    to.bucket = check.Number("CollectiveCall.bucket", from.bucket(), 0, kMaxInt32);
  }
  return to;
}

void FillWorker(const StillWorker& from, v1::StillWorker* to) {
  to->set_local_rank(from.local_rank.value);
  to->set_pid(from.pid);
  to->set_still_ms(Bounded(from.still));
  if (from.step) to->set_step(*from.step);
  to->set_phase(CleanText(from.phase, kMaxPhaseBytes));
  to->set_state(StateToProto(from.state));
  to->set_busy(from.busy);
  if (from.inside) FillCall(*from.inside, to->mutable_inside());
  for (const CollectiveCall& call : from.earlier) FillCall(call, to->add_earlier());
  to->set_entered(from.entered);
  to->set_waits_for(CleanText(from.waits_for, kMaxWaitsForBytes));
}

StillWorker ReadWorker(const v1::StillWorker& from, FieldChecker& check) {
  StillWorker to;
  to.local_rank.value =
      check.Number("StillWorker.local_rank", from.local_rank(), 0, kMaxWorkersPerNode - 1);
  to.pid = check.Number("StillWorker.pid", from.pid(), 0, kMaxInt32);
  to.still = check.Timeout("StillWorker.still_ms", from.still_ms());
  if (from.has_step()) to.step = check.Step("StillWorker.step", from.step());
  to.phase = check.Text("StillWorker.phase", from.phase(), kMaxPhaseBytes);
  to.state = ReadState(from.state());
  to.busy = from.busy();
  if (from.has_inside()) to.inside = ReadCall(from.inside(), check);
  check.Number("StillWorker.earlier: number", from.earlier_size(), 0, StillWorker::kMaxEarlier);
  for (const v1::CollectiveCall& call : from.earlier()) {
    if (to.earlier.size() == StillWorker::kMaxEarlier) break;
    to.earlier.push_back(ReadCall(call, check));
  }
  to.entered = check.Step("StillWorker.entered", from.entered());
  to.waits_for = check.Text("StillWorker.waits_for", from.waits_for(), kMaxWaitsForBytes);
  return to;
}

void FillExcuse(const HangExcuse& from, v1::HangExcuse* to) {
  if (from.local_rank) to->set_local_rank(from.local_rank->value);
  to->set_pid(from.pid);
  to->set_why(CleanText(from.why, kMaxWaitsForBytes));
  to->set_lasts_ms(Bounded(from.lasts));
}

HangExcuse ReadExcuse(const v1::HangExcuse& from, FieldChecker& check) {
  HangExcuse to;
  if (from.has_local_rank()) {
    to.local_rank = LocalRank{
        check.Number("HangExcuse.local_rank", from.local_rank(), 0, kMaxWorkersPerNode - 1)};
  }
  to.pid = check.Number("HangExcuse.pid", from.pid(), 0, kMaxInt32);
  to.why = check.Text("HangExcuse.why", from.why(), kMaxWaitsForBytes);
  to.lasts = check.Timeout("HangExcuse.lasts_ms", from.lasts_ms());
  return to;
}

std::vector<StillWorker> ReadWorkers(
    const char* name, const google::protobuf::RepeatedPtrField<v1::StillWorker>& from,
    FieldChecker& check) {
  std::vector<StillWorker> to;
  check.Number(absl::StrCat(name, ": number"), from.size(), 0, NodeProgress::kMaxStillWorkers);
  for (const v1::StillWorker& worker : from) {
    if (to.size() == NodeProgress::kMaxStillWorkers) break;
    to.push_back(ReadWorker(worker, check));
  }
  return to;
}

}  // namespace

void Fill(const NodeProgress& from, v1::NodeProgress* to) {
  to->set_workers(from.workers);
  to->set_still_ms(Bounded(from.still));
  for (const std::string& phase : from.phases) to->add_phases(CleanText(phase, kMaxPhaseBytes));
  to->set_excused(from.excused);
  to->set_names_phases(from.names_phases);
  for (const StillWorker& worker : from.still_workers) FillWorker(worker, to->add_still_workers());
  for (const StillWorker& worker : from.silent_workers) {
    FillWorker(worker, to->add_silent_workers());
  }
  to->set_silent_excused(from.silent_excused);
  to->set_stepped(from.stepped);
  to->set_moves(from.moves);
  for (const std::string& phase : from.phases_passed) {
    to->add_phases_passed(CleanText(phase, kMaxPhaseBytes));
  }
  for (const StillWorker& worker : from.leaving_workers) {
    FillWorker(worker, to->add_leaving_workers());
  }
  if (from.excuse) FillExcuse(*from.excuse, to->mutable_excuse());
}

void Fill(const EnteredCall& from, v1::EnteredCall* to) {
  to->set_local_rank(from.local_rank.value);
  to->set_workers(from.workers);
  FillCall(from.call, to->mutable_call());
}

std::vector<EnteredCall> ReadCalls(const google::protobuf::RepeatedPtrField<v1::EnteredCall>& from,
                                   FieldChecker& check) {
  std::vector<EnteredCall> to;
  check.Number("Stopped.calls: number", from.size(), 0, EnteredCall::kMaxOfANode);
  for (const v1::EnteredCall& entered : from) {
    if (to.size() == EnteredCall::kMaxOfANode) break;
    const int local_rank =
        check.Number("EnteredCall.local_rank", entered.local_rank(), 0, kMaxWorkersPerNode - 1);
    const int workers =
        check.Number("EnteredCall.workers", entered.workers(), 1, kMaxWorkersPerNode);
    to.push_back({LocalRank{local_rank}, workers, ReadCall(entered.call(), check)});
  }
  return to;
}

NodeProgress ReadProgress(const v1::NodeProgress& from, FieldChecker& check) {
  NodeProgress to;
  to.workers = check.Number("NodeProgress.workers", from.workers(), 0, kMaxWorkersPerNode);
  to.still = check.Timeout("NodeProgress.still_ms", from.still_ms());
  check.Number("NodeProgress.phases: number", from.phases_size(), 0, NodeProgress::kMaxPhases);
  for (const std::string& phase : from.phases()) {
    to.phases.push_back(check.Text("NodeProgress.phases", phase, kMaxPhaseBytes));
  }
  to.excused = from.excused();
  to.names_phases = from.names_phases();
  to.still_workers = ReadWorkers("NodeProgress.still_workers", from.still_workers(), check);
  to.silent_workers = ReadWorkers("NodeProgress.silent_workers", from.silent_workers(), check);
  to.silent_excused = from.silent_excused();
  to.stepped = from.stepped();
  to.moves = from.moves();
  check.Number("NodeProgress.phases_passed: number", from.phases_passed_size(), 0,
               NodeProgress::kMaxPassed);
  for (const std::string& phase : from.phases_passed()) {
    to.phases_passed.push_back(check.Text("NodeProgress.phases_passed", phase, kMaxPhaseBytes));
  }
  to.leaving_workers = ReadWorkers("NodeProgress.leaving_workers", from.leaving_workers(), check);
  if (from.has_excuse()) to.excuse = ReadExcuse(from.excuse(), check);
  return to;
}

void Fill(const StuckProcesses& from, v1::StuckProcesses* to) {
  to->set_report(from.report);
  for (const StuckProcess& process : from.processes) {
    v1::StuckProcess& each = *to->add_processes();
    if (process.rank) each.set_rank(process.rank->value);
    each.set_pid(process.pid);
    each.set_state(StateToProto(process.state));
    each.set_waits_for(CleanText(process.waits_for, kMaxWaitsForBytes));
    each.set_stuck_ms(Bounded(process.stuck));
  }
}

StuckProcesses ReadStuck(const v1::StuckProcesses& from, FieldChecker& check) {
  StuckProcesses to;
  to.report = from.report();
  check.Number("StuckProcesses.processes: number", from.processes_size(), 0, StuckProcesses::kMost);
  for (const v1::StuckProcess& process : from.processes()) {
    if (to.processes.size() == StuckProcesses::kMost) break;
    StuckProcess& each = to.processes.emplace_back();
    if (process.has_rank()) {
      each.rank = Rank{check.Number("StuckProcess.rank", process.rank(), 0, kMaxWorldSize)};
    }
    each.pid = check.Number("StuckProcess.pid", process.pid(), 0, kMaxInt32);
    each.state = ReadState(process.state());
    each.waits_for = check.Text("StuckProcess.waits_for", process.waits_for(), kMaxWaitsForBytes);
    each.stuck = check.Timeout("StuckProcess.stuck_ms", process.stuck_ms());
  }
  return to;
}

}  // namespace ddprun::wire
