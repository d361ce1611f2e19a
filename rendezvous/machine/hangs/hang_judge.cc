#include "rendezvous/machine/hangs/hang_judge.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/words.h"
#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/hangs/init_wait.h"
#include "rendezvous/machine/hangs/not_judged.h"
#include "rendezvous/machine/job_view.h"
#include "rendezvous/stacks/rank_set.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

// A smaller tree of stacks would show too little.
constexpr std::size_t kMinShownStackBytes = 16 << 10;
constexpr std::size_t kEndedRanksNamed = 8;  // ranges of ranks
// Limit per generation, because on an overloaded node all ranks are excused. `status` shows one
// excuse at any time.
constexpr std::size_t kToldExcuses = 8;

// "n1, n2 and 5 more"
std::string FirstOf(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return absl::StrJoin(names, ", ");
  return absl::StrCat(
      absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most), ", "),
      " and ", names.size() - most, " more");
}

RootCause CauseOf(const StackFindings::Culprit& found, const std::string& standstill,
                  Generation generation) {
  const HangVerdict& verdict = found.verdict;
  RootCause cause;
  cause.kind = RootCause::Kind::kHung;
  cause.reason = absl::StrCat(verdict.why, "; ", standstill);
  if (!verdict.culprit) return cause;
  cause.failure = FailureOf(*verdict.culprit, generation);
  cause.frames = found.frames;
  cause.phase = verdict.culprit->worker.phase;
  cause.still = verdict.culprit->worker.still;
  return cause;
}

}  // namespace

void HangJudge::Take(const Node& node, const NodeProgress& progress, TimePoint now) {
  if (node.phase != Phase::kStarted) return;
  const Duration still = now - job_.generation->hang.last_moved();
  const bool over =
      job_.generation->hang.Take(node.agent_id, progress, now, &job_.life->progress.intervals);
  job_.life->progress.any = job_.life->progress.any || progress.workers > 0;
  job_.life->progress.names_phases = job_.life->progress.names_phases || progress.names_phases;
  if (progress.excuse) TellLongExcuse(node, *progress.excuse, now);
  TellInitWait(now);
  if (!over) return;
  suspicion() = HangSuspicion{};
  const std::string text =
      absl::StrCat(NameOfJob(*job_.name), " moves again, after ", Seconds(still));
  job_.out->Emit({.kind = JobEvent::Kind::kMovedAgain,
                  .host = node.spec.host,
                  .agent_id = node.agent_id,
                  .reason = text});
  job_.out->WarnAll(*job_.roster, text);
}

void HangJudge::TellLongExcuse(const Node& node, const HangExcuse& excuse, TimePoint now) {
  if (!PolicyOfHangs(*job_.life->spec).watches) return;
  const Duration stands = now - job_.generation->hang.really_moved();
  if (std::min(excuse.lasts, stands) < Limit()) return;
  const JobStatus::NotJudged::Excuse known = ExcuseOf(node, excuse);
  std::vector<std::string>& told = job_.generation->notices.excuses;
  std::string who = WhoIsExcused(known);
  if (told.size() == kToldExcuses || std::find(told.begin(), told.end(), who) != told.end()) return;
  told.push_back(std::move(who));
  const std::string text = absl::StrCat("not judged: ", Describe(known));
  job_.out->Emit({.kind = JobEvent::Kind::kNotJudged,
                  .host = node.spec.host,
                  .agent_id = node.agent_id,
                  .reason = text});
  job_.out->WarnAll(*job_.roster, absl::StrCat(NameOfJob(*job_.name), " is ", text));
}

void HangJudge::TellInitWait(TimePoint now) {
  constexpr std::chrono::seconds kBetweenLooks{5};
  const HangWatch& hang = job_.generation->hang;
  std::optional<TimePoint>& look = job_.generation->notices.init_look;
  if (!PolicyOfHangs(*job_.life->spec).watches || hang.step_seen() || hang.called()) return;
  if (!look) look = now + InitWait::kTold;
  if (job_.generation->notices.init_wait || now < *look) return;
  look = now + kBetweenLooks;
  const std::optional<InitWait> wait = InitWaitOf(StillNodes());
  if (!wait || wait->longest < InitWait::kTold) return;
  job_.generation->notices.init_wait = true;
  job_.out->WarnAll(*job_.roster, absl::StrCat(NameOfJob(*job_.name), ": ",
                                               Describe(*wait, job_.generation->tally.world_size)));
}

Duration HangJudge::Limit() const {
  const HangPolicy policy = PolicyOfHangs(*job_.life->spec);
  const Duration limit = job_.generation->hang.Limit(policy, job_.life->progress.intervals);
  // Once a rank has finished, another rank may still do a last task of any length.
  const bool tail = job_.generation->tally.workers_succeeded > 0 || job_.generation->hang.leaves();
  return tail ? std::max(limit, policy.startup_limit) : limit;
}

void HangJudge::AddProgress(JobStatus* status, TimePoint now) const {
  status->not_judged = WhyNotJudged(*job_.life, *job_.generation, *job_.roster, now);
  if (!status->arrivals && !job_.generation->hang.step_seen()) {
    // If no agent serves the store, the missing ranks follow from the ranks' own reports.
    const std::optional<InitWait> wait = InitWaitOf(StillNodes());
    if (wait && wait->longest >= InitWait::kTold) status->arrivals = wait->arrivals;
  }
  if (!job_.generation->hang.judges() && !job_.generation->hang.leaves()) return;
  JobStatus::Progress progress;
  progress.still = std::max(now - job_.generation->hang.last_moved(), Duration{});
  progress.wall = std::max(now - job_.generation->hang.really_moved(), progress.still);
  if (PolicyOfHangs(*job_.life->spec).watches) progress.limit = Limit();
  if (job_.generation->hang.called()) progress.hang = job_.generation->hang_report;
  status->progress = std::move(progress);
}

// After a restart, ranks that reported before are expected to report again. If they are all silent,
// they may all wait for the same file server.
bool HangJudge::Judges() const {
  const auto& hang = job_.generation->hang;
  return hang.judges() || hang.leaves() || (job_.life->progress.any && hang.all_silent());
}

// A debugger that holds a rank delays the verdict. It is not the reason for the standstill: if it
// had attached before the limit, its time would be excused.
bool HangJudge::DebuggerHoldsOne() const {
  const auto one_is_held = [](const std::vector<StillWorker>& workers) {
    return std::any_of(workers.begin(), workers.end(), [](const StillWorker& worker) {
      return worker.state == ProcessState::kTraced;
    });
  };
  const std::vector<StillNode> nodes = StillNodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const StillNode& node) {
    return one_is_held(node.told->still_workers) || one_is_held(node.told->silent_workers);
  });
}

std::optional<TimePoint> HangJudge::Deadline(JobState state) const {
  if (state != JobState::kRunning || !job_.life->spec || !PolicyOfHangs(*job_.life->spec).watches ||
      !Judges() || job_.generation->incidents.any()) {
    return std::nullopt;
  }
  const auto& hang = job_.generation->hang;
  if (!hang.called()) {
    const TimePoint at = hang.last_moved() + Limit();
    return suspicion().again ? std::max(at, *suspicion().again) : at;
  }
  return suspicion().again;
}

bool HangJudge::IsAtWork(TimePoint now) const {
  // If a debugger attaches after the verdict, last_moved() moves, and this time moves with it.
  const TimePoint until =
      job_.generation->hang.last_moved() + job_.life->spec->hang_startup_timeout;
  if (!suspicion().at_work || now >= until) return false;
  for (const StillNode& node : StillNodes()) {
    // The busy rank may look idle because a debugger holds it or it gets no CPU.
    if (node.told->excused || node.told->silent_excused) return true;
    for (const auto* const workers : {&node.told->still_workers, &node.told->silent_workers}) {
      for (const StillWorker& worker : *workers) {
        const Rank rank{node.first_rank.value + worker.local_rank.value};
        if (worker.busy && !worker.inside && suspicion().at_work->rank.value_or(rank) == rank)
          return true;
      }
    }
  }
  return false;
}

// True if every node that reports was heard a moment ago, so that all reports are still valid.
bool HangJudge::KnowsEveryRank(TimePoint now) const {
  const Duration fresh = 2 * job_.life->spec->heartbeat + std::chrono::milliseconds(500);
  const std::vector<const Node*> unheard = job_.roster->Unheard(now - fresh);
  return std::all_of(unheard.begin(), unheard.end(), [&](const Node* node) {
    return !node->member() || node->done() || job_.generation->hang.Find(node->agent_id) == nullptr;
  });
}

void HangJudge::Consider(JobState state, TimePoint now) {
  const auto deadline = Deadline(state);
  if (!deadline || now < *deadline) return;
  if (job_.stacks->for_verdict()) return;  // StacksJudged will call Decide()
  if (IsAtWork(now) || DebuggerHoldsOne() || !KnowsEveryRank(now)) {
    suspicion().again = now + job_.life->spec->heartbeat;
    return;
  }
  if (!HasFound()) return job_.stacks->AskForVerdict(now);
  HangSuspicion::Found found = *std::exchange(suspicion().found, std::nullopt);
  Decide(std::move(found.culprit), std::move(found.missing), state, now);
}

bool HangJudge::HasFound() const {
  return suspicion().found && suspicion().found->last_moved == job_.generation->hang.last_moved();
}

std::vector<StillNode> HangJudge::StillNodes() const {
  std::vector<StillNode> nodes;
  for (const Node* const node : job_.roster->members()) {
    if (node == nullptr) continue;
    if (auto told = job_.generation->hang.Find(node->agent_id)) {
      nodes.push_back({node->first_rank, node->spec.host, node->rank, std::move(told)});
    }
  }
  return nodes;
}

StackQuestion HangJudge::Question() const {
  StackQuestion question;
  // All ranks make the same steps: a rank that is still silent after the first step never reports.
  const HangWatch& hang = job_.generation->hang;
  question.culprit = {StillNodes(), !hang.step_seen(), hang.leaves()};
  question.sent_bytes = ShownStackBytes();
  return question;
}

AgentId HangJudge::AgentOf(NodeRank rank) const {
  const auto& members = job_.roster->members();
  const auto node = std::find_if(members.begin(), members.end(), [rank](const Node* member) {
    return member != nullptr && member->rank == rank;
  });
  return node == members.end() ? AgentId{} : (*node)->agent_id;
}

std::string HangJudge::WhoHasEnded(TimePoint now) const {
  RankSet ended;
  for (const Node* const node : job_.roster->members()) {
    if (node == nullptr) continue;
    for (const LocalRank rank : node->told.succeeded) {
      ended.Add(static_cast<std::uint32_t>(node->first_rank.value + rank.value));
    }
  }
  const auto& at = job_.generation->succeeded_at;
  if (ended.empty() || !at) return "";
  const bool one = ended.count() == 1;
  return absl::StrCat("; ", one ? "rank " : "ranks ", ended.ToString(kEndedRanksNamed),
                      one ? " has ended with 0 " : " have ended with 0, the last ",
                      ForHowLong(now - *at), " ago");
}

void HangJudge::Decide(StackFindings::Culprit found, std::vector<std::string> missing,
                       JobState state, TimePoint now) {
  // The hang is over: a rank has moved or ended, a worker has failed, or the job is about to stop.
  const auto deadline = Deadline(state);
  if (!deadline || now < *deadline) return;
  if (DebuggerHoldsOne() || !KnowsEveryRank(now)) {
    suspicion().again = now + job_.life->spec->heartbeat;
    suspicion().found = {std::move(found), std::move(missing), job_.generation->hang.last_moved()};
    return;
  }
  suspicion().again.reset();
  found.verdict.why += WhoHasEnded(now);
  const HangVerdict& verdict = found.verdict;
  const bool again = job_.generation->hang.called();
  const std::string standstill =
      DescribeStandstill(now - job_.generation->hang.last_moved(), Limit(),
                         job_.generation->furthest_step, job_.generation->hang.step_seen());
  const auto [restart, next] = AfterHang(verdict, again, now);
  if (restart && !verdict.culprit) {  // retry: the next heartbeats name the ranks
    suspicion().again = now + job_.life->spec->heartbeat;
    return;
  }
  if (!again) Call(found, standstill, next, std::move(missing));
  job_.generation->hang.Call();
  if (!restart) return;
  if (verdict.blames) job_.generation->hung_host = verdict.culprit->host;
  job_.generation->incidents.AddHang(CauseOf(found, standstill, job_.generation->number));
  // Advance() stops the generation.
}

void HangJudge::Call(const StackFindings::Culprit& found, const std::string& standstill,
                     const std::string& next, std::vector<std::string> missing) {
  const HangVerdict& verdict = found.verdict;
  RootCause cause = CauseOf(found, standstill, job_.generation->number);
  job_.generation->hang_report = absl::StrCat("hangs: ", cause.reason);
  HangStacks report;
  report.verdict = {absl::StrCat(NameOfJob(*job_.name), " hangs: ", standstill), verdict.why};
  if (!found.stack.empty()) report.verdict.push_back(absl::StrCat("  ", found.stack));
  if (const auto arrivals = ArrivalsOf(*job_.generation, *job_.roster)) {
    report.verdict.push_back(Describe(*arrivals, job_.generation->tally.world_size));
  }
  report.missing = std::move(missing);
  if (!report.missing.empty()) {
    report.verdict.push_back(absl::StrCat("no stacks came within ",
                                          Seconds(job_.options->stacks_timeout), " from ",
                                          FirstOf(report.missing, 8)));
  }
  for (const std::string& line : report.verdict) job_.out->Log(line);
  report.next = next;
  JobEvent event{.kind = JobEvent::Kind::kHung,
                 .reason = absl::StrCat(standstill, "; ", verdict.why)};
  if (verdict.culprit) {
    event.host = verdict.culprit->host;
    event.agent_id = AgentOf(verdict.culprit->node_rank);
    event.cause = std::move(cause);
  }
  event.step = job_.generation->furthest_step;
  event.stacks = found.for_event;
  job_.out->Emit(std::move(event));
  report.tree = found.for_nodes;
  SendStacks(std::move(report));
  job_.out->Log(next);
}

void HangJudge::SendStacks(HangStacks stacks) {
  if (stacks.missing.size() > kMaxMissingHosts) stacks.missing.resize(kMaxMissingHosts);
  HangStacks no_tree = stacks;
  no_tree.tree = std::make_shared<EncodedStackTree>();
  if (const Node* const first = job_.roster->members().front()) {
    no_tree.verdict.push_back(
        absl::StrCat("the stacks of all ranks are in the run's folder on ", first->spec.host));
  }
  const auto share = [](HangStacks report) {
    return JobOutbox::Share(HangReported{std::make_shared<const HangStacks>(std::move(report))});
  };
  const JobOutbox::Shared whole = share(std::move(stacks));
  const JobOutbox::Shared lines = share(std::move(no_tree));
  const auto trees = static_cast<int>(job_.options->hang_bytes_of_all_nodes / ShownStackBytes());
  for (const Node& node : job_.roster->nodes()) {
    if (node.suspect) continue;
    const bool gets_tree =
        job_.roster->size() <= trees || (node.member() && node.rank.value < trees);
    job_.out->SendTo(node, gets_tree ? whole : lines);
  }
}

std::size_t HangJudge::ShownStackBytes() const {
  const auto nodes = static_cast<std::size_t>(std::max(job_.roster->size(), 1));
  return std::clamp(job_.options->hang_bytes_of_all_nodes / nodes, kMinShownStackBytes,
                    kMaxSentStackTreeBytes);
}

// Returns whether the workers are restarted, and the line that says so.
std::pair<bool, std::string> HangJudge::AfterHang(const HangVerdict& verdict, bool again,
                                                  TimePoint now) {
  const JobSpec& spec = *job_.life->spec;
  if (job_.generation->hang.leaves()) {
    return {false, "the workers are left alone: all have said BYE"};
  }
  const bool tail = job_.generation->tally.workers_succeeded > 0;
  if (spec.on_hang == JobSpec::kReportHang || tail) {
    return {false, tail ? "a rank has ended with 0: the others are left alone"
                        : "the workers are left alone (--on-hang report)"};
  }
  if (spec.on_hang == JobSpec::kRestartHang) {
    return {true, "the workers are ended, and started again where a restart is left"};
  }
  const bool loses_nothing =
      job_.life->has_states || job_.life->reports_checkpoints || !job_.generation->hang.step_seen();
  if (!job_.life->progress.names_phases || !loses_nothing) {
    return {false,
            job_.life->progress.names_phases
                ? "the workers are left alone: no state was saved yet (--on-hang restart starts "
                  "them again all the same)"
                : "the workers are left alone: the program names no phases, so this may be an "
                  "evaluation (--on-hang restart starts them again all the same)"};
  }
  const TimePoint until = job_.generation->hang.last_moved() + spec.hang_startup_timeout;
  if (verdict.busy && (!again || now < until)) return {false, LeaveAtWork(verdict, now)};
  return {true, "the workers are ended, and started again where a restart is left"};
}

std::string HangJudge::LeaveAtWork(const HangVerdict& verdict, TimePoint now) {
  const JobSpec& spec = *job_.life->spec;
  suspicion().at_work.emplace();
  if (verdict.blames && verdict.culprit) suspicion().at_work->rank = verdict.culprit->rank;
  suspicion().again = now + spec.heartbeat;
  const TimePoint until = job_.generation->hang.last_moved() + spec.hang_startup_timeout;
  return absl::StrCat(
      "it uses the CPU or does I/O, so it is ended only once it has done neither for ",
      Seconds(kBusyWindow), ", or goes on for ", Seconds(std::max(until, *suspicion().again) - now),
      " more (--hang-startup-timeout)");
}

}  // namespace ddprun
