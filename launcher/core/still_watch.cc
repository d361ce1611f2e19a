#include "launcher/core/still_watch.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace ddprun {
namespace {

// Shares of the time. A worker that used the CPU for more than kBusyShare is busy. A worker that
// waited for a CPU for more than kStarvedShare is starved.
constexpr double kBusyShare = 0.05;
constexpr double kStarvedShare = 0.5;
constexpr std::int64_t kBusyBytes = 64 << 10;
// A shorter time does not count as busy or starved.
constexpr Duration kShortest = std::chrono::seconds(2);
constexpr int kUsesInWindow = 20;
constexpr int kLateLooks = 3;

double Share(Duration part, Duration whole) {
  return whole > Duration{} ? static_cast<double>(part.count()) / static_cast<double>(whole.count())
                            : 0;
}

// The phase of a Python program outside of its named phases: launcher/python/ddprun.py.
constexpr char kPythonTraining[] = "train";

// Empty: training, loading of data, or before the first reported phase.
std::string PhaseOf(std::optional<ProgressPhase> phase, const std::string& name) {
  if (!phase || phase == ProgressPhase::kStart || phase == ProgressPhase::kStep ||
      phase == ProgressPhase::kData || name == kPythonTraining) {
    return "";
  }
  return name;
}

// Only the ddp library and the Python module's Checkpointer report these phases, before the first
// step.
bool IsOfTheStart(std::optional<ProgressPhase> phase) {
  return phase == ProgressPhase::kInit || phase == ProgressPhase::kRestore ||
         phase == ProgressPhase::kFirstStep;
}

// Adds the phases that began and ended between two looks: `before` is from the earlier look,
// `worker` from this one.
void AddPassed(const SeenWorker& worker, const std::map<std::string, std::uint64_t>& before,
               std::set<std::string>* passed) {
  for (const auto& [phase, times] : worker.begun) {
    const auto found = before.find(phase);
    const std::uint64_t since = times - (found == before.end() ? 0 : found->second);
    if (since > (phase == worker.phase ? 1U : 0U)) passed->insert(phase);
  }
}

// A page may contain any value, but the wire format accepts only these.
std::int64_t Bounded(std::uint64_t value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(value, kMost));
}

CollectiveCall CallOf(std::size_t group, const ProgressCollective& collective) {
  CollectiveCall call{"group " + std::to_string(group), Bounded(collective.number),
                      ToString(collective.operation), Bounded(collective.bytes)};
  if (collective.bucket) call.bucket = static_cast<int>(*collective.bucket);
  return call;
}

// The known calls of a group that have begun and not completed, in the order of their numbers. A
// later call may already be complete, for example the second of two buckets.
std::vector<CollectiveCall> UnfinishedOf(std::size_t group, const ProgressGroup& told) {
  std::vector<CollectiveCall> calls;
  for (const auto& [collective, completed] : told.recent) {
    if (!completed) calls.push_back(CallOf(group, collective));
  }
  // No call is known: the unfinished call is older than the recorded ones, or the worker has an
  // earlier version. Take the newest call that the worker has entered: it waits there or before.
  if (calls.empty()) calls.push_back(CallOf(group, *told.entered));
  return calls;
}

// Sets the collectives in which the worker waits: those of the group that was used last.
void SetInside(const ProgressSnapshot& snapshot, SeenWorker* seen) {
  std::int64_t newest = 0;
  for (std::size_t i = 0; i < snapshot.groups.size(); ++i) {
    const ProgressGroup& group = snapshot.groups[i];
    if (group.unfinished() == 0 || (seen->inside && group.entered->at_ns <= newest)) continue;
    newest = group.entered->at_ns;
    seen->earlier = UnfinishedOf(i, group);
    seen->inside = std::move(seen->earlier.back());
    seen->earlier.pop_back();
    const std::int64_t entered = Bounded(group.entered->number);
    seen->entered = entered > seen->inside->sequence ? entered : 0;
  }
}

// The bytes that the sockets have carried between two looks. A socket may be new or closed, because
// an upload may use a new socket for each piece.
std::int64_t CarriedBetween(const ProcessFacts& before, const ProcessFacts& now) {
  if (!before.tcp_bytes || !now.tcp_bytes) return 0;
  std::int64_t carried = 0;
  for (const auto& [inode, bytes] : *now.tcp_bytes) {
    const auto found = before.tcp_bytes->find(inode);
    carried +=
        std::max<std::int64_t>(bytes - (found == before.tcp_bytes->end() ? 0 : found->second), 0);
  }
  return carried;
}

// "thread 4243", "process 4250 (rsync)".
std::string NameOf(const DiskWait& disk) {
  const std::string number = std::to_string(disk.thread);
  return disk.process.empty() ? "thread " + number
                              : "process " + number + " (" + disk.process + ")";
}

}  // namespace

SeenWorker SeenWorkerOf(const WorkerProgress& progress, int pid) {
  if (progress.said_bye) {
    SeenWorker leaving{progress.local_rank, pid};
    leaving.leaving = true;
    return leaving;
  }
  const ProgressSnapshot& now = progress.now;
  SeenWorker seen{progress.local_rank, pid, now.moves};
  seen.silent = progress.source == ProgressSource::kNone;
  if (seen.silent) return seen;
  if (now.step >= 0) seen.step = now.step;
  seen.phase = PhaseOf(now.phase, now.phase_name);
  SetInside(now, &seen);
  // The ddp library names its phases: at first by PHASE messages, later on the page.
  seen.names_phases =
      progress.source == ProgressSource::kPage || IsOfTheStart(now.phase) || !seen.phase.empty();
  bool in_steps = now.phase == ProgressPhase::kStep;  // not kData: a loader awaits the first batch
  for (const ProgressBegun& begun : now.begun) {
    in_steps = in_steps || (begun.phase == ProgressPhase::kStep && begun.times > 0);
    if (begun.phase == ProgressPhase::kStart || begun.phase == ProgressPhase::kEnd) continue;
    const std::string phase = PhaseOf(begun.phase, begun.name);
    seen.names_phases = seen.names_phases || !phase.empty();
    if (!IsOfTheStart(begun.phase)) seen.begun[phase] += begun.times;
  }
  seen.stepped = seen.step.has_value() || (progress.source == ProgressSource::kPage && in_steps);
  return seen;
}

std::vector<EnteredCall> LastCallsOf(const std::vector<WorkerProgress>& workers) {
  std::vector<EnteredCall> calls;
  const auto add = [&](LocalRank local_rank, const CollectiveCall& call) {
    const auto found = std::find_if(calls.begin(), calls.end(), [&](const EnteredCall& entered) {
      return entered.call == call;
    });
    if (found != calls.end()) {
      ++found->workers;
    } else if (calls.size() < EnteredCall::kMaxOfANode) {
      calls.push_back({local_rank, 1, call});
    }
  };
  for (const WorkerProgress& worker : workers) {
    for (std::size_t i = 0; i < worker.now.groups.size(); ++i) {
      const ProgressGroup& group = worker.now.groups[i];
      std::map<std::uint64_t, const ProgressCollective*> last;  // by number
      for (const ProgressRecent& recent : group.recent) {
        last[recent.collective.number] = &recent.collective;
      }
      for (const auto& one : {&group.entered, &group.completed}) {
        if (*one && (*one)->number > 0) last.try_emplace((*one)->number, &**one);
      }
      for (const auto& [number, collective] : last) add(worker.local_rank, CallOf(i, *collective));
    }
  }
  return calls;
}

bool StillWatch::WasAway(TimePoint now) const {
  const Duration longest = std::max<Duration>(kLateLooks * heartbeat_, std::chrono::seconds(2));
  return last_look_ && now - *last_look_ > longest;
}

// Every process that reads from a disk is sometimes in state D. A thread counts as hanging in D if
// two looks find it in D and it did not run in between; other threads do not matter. In some file
// systems the thread runs at times for a retry, so it also counts if no process of the rank used
// a CPU or did I/O.
void StillWatch::DescribeState(const ProcessFacts& facts, Memory* memory, StillWorker* worker) {
  const std::optional<ProcessFacts> last = std::exchange(memory->last, facts);
  worker->state = facts.state;
  worker->waits_for = facts.waits_for;
  const bool same_wait = last && facts.disk && last->disk && facts.disk->IsThatOf(*last->disk);
  if (facts.state == ProcessState::kDiskWait) {
    const bool idle = last && last->state == ProcessState::kDiskWait && last->cpu == facts.cpu &&
                      last->io_bytes == facts.io_bytes;
    if (!same_wait && !idle) worker->state = ProcessState::kRunnable;
  } else if (same_wait) {
    // The thread may write a checkpoint in the background, which does not hold the rank.
    worker->waits_for += (worker->waits_for.empty() ? "its " : ", and its ") + NameOf(*facts.disk) +
                         " is in disk wait (D) in " + facts.disk->waits_for;
  }
}

// The kernel counts a wait for a CPU only when it is over. This function finds the waits in
// progress.
void StillWatch::FindStarved(const ProcessFacts& facts, Memory* memory) {
  std::map<int, TimePoint> since;
  for (const auto& [thread, ran] : facts.wants) {
    if (!memory->last) break;
    const auto before = memory->last->wants.find(thread);
    if (before == memory->last->wants.end() || before->second != ran) continue;
    const auto known = memory->starved_since.find(thread);
    since[thread] = known != memory->starved_since.end() ? known->second : memory->last->read_at;
  }
  memory->starved_since = std::move(since);
}

// The longest wait, not the sum: a process whose many threads each wait a little is not starved.
Duration StillWatch::LongestWait(const ProcessFacts& facts, const Memory& memory) {
  Duration longest{};
  for (const auto& [thread, waited] : facts.waited) {
    const auto found = memory.facts->waited.find(thread);
    Duration wait = found == memory.facts->waited.end() ? waited : waited - found->second;
    const auto starved = memory.starved_since.find(thread);
    if (starved != memory.starved_since.end()) wait += facts.read_at - starved->second;
    longest = std::max(longest, wait);
  }
  return longest;
}

bool StillWatch::IsBusy(const ProcessFacts& facts, TimePoint now, Memory* memory) {
  std::deque<Use>& uses = memory->uses;
  const std::int64_t io_bytes = facts.io_bytes + memory->tcp_bytes;
  if (uses.empty() || now - uses.back().at >= kBusyWindow / kUsesInWindow) {
    uses.push_back({now, facts.cpu, io_bytes});
  }
  while (uses.size() > 1 && now - uses[1].at >= kBusyWindow) uses.pop_front();
  const Use& before = uses.front();
  const Duration passed = now - before.at;
  if (passed < kShortest) return false;
  return Share(facts.cpu - before.cpu, passed) > kBusyShare ||
         io_bytes - before.io_bytes > kBusyBytes;
}

StillWatch::Excuse StillWatch::Describe(const ProcessFacts& facts, TimePoint now, Memory* memory,
                                        StillWorker* worker) {
  if (!memory->last || memory->last->read_at != facts.read_at) {
    if (memory->last) memory->tcp_bytes += CarriedBetween(*memory->last, facts);
    FindStarved(facts, memory);
    DescribeState(facts, memory, worker);
    memory->state = worker->state;
    memory->waits_for = worker->waits_for;
  }
  // Without new facts keep the earlier verdict: facts are not read while stacks are copied.
  worker->state = memory->state;
  worker->waits_for = memory->waits_for;
  if (!memory->facts) {
    memory->facts = facts;
    memory->facts_at = now;
  }
  worker->busy = IsBusy(facts, now, memory);
  const bool traced = facts.state == ProcessState::kTraced;
  if (traced) memory->debugged += now - std::max(memory->moved_at, last_look_.value_or(now));
  const Duration passed = now - memory->facts_at;
  const Duration waited = LongestWait(facts, *memory);
  const bool starves = passed >= kShortest && Share(waited, passed) > kStarvedShare;
  const Duration excused = memory->debugged + (starves ? waited : Duration{});
  Excuse excuse{std::min(excused, worker->still), ""};
  if (traced) {
    excuse.why = facts.tracer.empty() ? "is held by a debugger" : facts.tracer;
  } else if (starves) {
    excuse.why = "gets no CPU, because the machine is overloaded";
  }
  return excuse;
}

void StillWatch::Tell(const Excuse& excuse, const StillWorker& worker, TimePoint now,
                      Memory* memory, NodeProgress* progress) {
  if (!excuse.now()) return memory->excused_since.reset();
  if (!memory->excused_since) memory->excused_since = now;
  const Duration lasts = now - *memory->excused_since;
  if (progress->excuse && progress->excuse->lasts >= lasts) return;
  progress->excuse = HangExcuse{worker.local_rank, worker.pid, excuse.why, lasts};
}

NodeProgress StillWatch::Look(const std::vector<SeenWorker>& workers, TimePoint now,
                              const FactsOf& facts) {
  if (!begun_at_) begun_at_ = now;
  NodeProgress progress;
  progress.excused = progress.silent_excused = WasAway(now);
  if (!progress.excused) {
    away_since_.reset();
  } else {
    if (!away_since_) away_since_ = now;
    progress.excuse = HangExcuse{{}, 0, "runs too seldom to watch its workers", now - *away_since_};
  }
  std::vector<SeenWorker> telling;
  std::vector<SeenWorker> silent;
  std::vector<SeenWorker> leaving;
  for (const SeenWorker& worker : workers) {
    (worker.leaving ? leaving : worker.silent ? silent : telling).push_back(worker);
  }
  const std::map<LocalRank, Memory> before = std::exchange(memory_, {});
  std::set<std::string> passed;
  for (const SeenWorker& worker : workers) {
    const auto found = before.find(worker.local_rank);
    const bool known = found != before.end() && found->second.pid == worker.pid;
    const bool stands = known && found->second.moves == worker.moves &&
                        found->second.leaving == worker.leaving && !progress.excused;
    if (!stands && !worker.silent && !worker.leaving) ++moves_;
    AddPassed(worker, known ? found->second.begun : decltype(worker.begun)(), &passed);
    Memory& memory = memory_[worker.local_rank];
    if (stands) {
      memory = found->second;
    } else {
      memory.pid = worker.pid;
      memory.moves = worker.moves;
      memory.leaving = worker.leaving;
      memory.moved_at = now;
      memory.begun = worker.begun;
    }
  }
  for (const std::string& phase : passed) {
    if (progress.phases_passed.size() < NodeProgress::kMaxPassed)
      progress.phases_passed.push_back(phase);
  }
  LookAtStill(telling, now, facts, &progress);
  // While a worker of the node moves, silent workers are not examined.
  const bool all_still = telling.empty() || progress.still >= NodeProgress::kDetailsAfter;
  if (all_still && now - *begun_at_ >= NodeProgress::kDetailsAfter) {
    LookAtSilent(silent, now, facts, &progress);
  }
  LookAtLeaving(leaving, now, facts, &progress);
  last_look_ = now;
  return progress;
}

void StillWatch::LookAtStill(const std::vector<SeenWorker>& workers, TimePoint now,
                             const FactsOf& facts, NodeProgress* progress) {
  progress->workers = static_cast<int>(workers.size());
  std::set<std::string> phases;
  Duration shortest = workers.empty() ? Duration{} : Duration::max();
  for (const SeenWorker& worker : workers) {
    phases.insert(worker.phase);
    names_phases_ = names_phases_ || worker.names_phases;
    stepped_ = stepped_ || worker.stepped;
    shortest = std::min(shortest, now - memory_[worker.local_rank].moved_at);
  }
  progress->still = shortest;
  progress->names_phases = names_phases_;
  progress->stepped = stepped_;
  progress->moves = moves_;
  for (const std::string& phase : phases) {
    if (progress->phases.size() < NodeProgress::kMaxPhases) progress->phases.push_back(phase);
  }
  // If another rank moves, the details of a still rank are not needed, and they cost reads of
  // /proc.
  if (shortest < NodeProgress::kDetailsAfter) return;
  for (const SeenWorker& worker : workers) {
    Memory& memory = memory_[worker.local_rank];
    const Duration still = now - memory.moved_at;
    StillWorker described{worker.local_rank, worker.pid, still, worker.step, worker.phase};
    described.inside = worker.inside;
    described.earlier = worker.earlier;
    described.entered = worker.entered;
    const Excuse excuse = Describe(facts(worker.pid), now, &memory, &described);
    Tell(excuse, described, now, &memory, progress);
    if (excuse.now()) progress->excused = true;
    progress->still = std::min(progress->still, still - excuse.time);
    if (progress->still_workers.size() < NodeProgress::kMaxStillWorkers) {
      progress->still_workers.push_back(std::move(described));
    }
  }
}

void StillWatch::LookAtSilent(const std::vector<SeenWorker>& workers, TimePoint now,
                              const FactsOf& facts, NodeProgress* progress) {
  for (const SeenWorker& worker : workers) {
    if (progress->silent_workers.size() == NodeProgress::kMaxStillWorkers) return;
    StillWorker described{worker.local_rank, worker.pid, now - *begun_at_};
    Memory& memory = memory_[worker.local_rank];
    const Excuse excuse = Describe(facts(worker.pid), now, &memory, &described);
    Tell(excuse, described, now, &memory, progress);
    if (excuse.now()) progress->silent_excused = true;
    progress->silent_workers.push_back(std::move(described));
  }
}

void StillWatch::LookAtLeaving(const std::vector<SeenWorker>& workers, TimePoint now,
                               const FactsOf& facts, NodeProgress* progress) {
  for (const SeenWorker& worker : workers) {
    if (progress->leaving_workers.size() == NodeProgress::kMaxStillWorkers) return;
    Memory& memory = memory_[worker.local_rank];
    StillWorker described{worker.local_rank, worker.pid, now - memory.moved_at};
    if (described.still < NodeProgress::kDetailsAfter) continue;
    described.still -= Describe(facts(worker.pid), now, &memory, &described).time;
    progress->leaving_workers.push_back(std::move(described));
  }
}

}  // namespace ddprun
