// JobMachine: what time does to it; and that no rank moves.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/machine/job_machine.h"

namespace ddprun {
namespace {

// A tree of stacks that is cut to less shows nothing.
constexpr std::size_t kMinShownStackBytes = 16 << 10;

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

void JobMachine::OnTick() {
  if (finished_) return;
  LoseSilent();
  if (finished_) return;
  if (timers_.report && now_ >= *timers_.report) {
    const std::string reason = WhyItWaits(View());
    Log(reason);
    for (const Node& node : roster_.nodes()) {
      if (!node.member() && !node.suspect) SendTo(node, Waiting{reason});
    }
    timers_.report_interval =
        std::min<Duration>(2 * timers_.report_interval, std::chrono::minutes(1));
    timers_.report = now_ + timers_.report_interval;
  }
  if (timers_.admission && now_ >= *timers_.admission) AdmitHeldBack();
  ConsiderHang();
  AskMoreForStacks();
  // Only in a Tick: at other events the caller may still hold answers that came in time.
  if (generation_.stacks && now_ >= generation_.stacks->deadline()) ConcludeStacks();
  if (hold_until_ && now_ >= *hold_until_) {
    hold_until_.reset();
    LoseSight();  // until now such workers may have written
  }
  if (!timers_.state || now_ < *timers_.state) return;
  timers_.state.reset();
  switch (state_) {
    case JobState::kGathering:
      GiveUpWaiting();
      break;
    case JobState::kLastCall:
      // Some may have been lost just above; then Advance goes back to Gathering.
      if (roster_.free() >= life_.spec->min_nodes) FormWithAllStates();
      break;
    case JobState::kForming:
      LoseUnprepared();
      break;
    case JobState::kSaving:
      Log(absl::StrCat("no checkpoint came within ", Seconds(life_.spec->save_timeout)));
      StopGeneration(life_.plan->reason);
      break;
    case JobState::kBackoff:
      Gather();
      break;
    default:
      DDPRUN_CHECK(false, "a state without a deadline has one");
  }
}

// Slurm can start the job again on other nodes, and it is worth it where there is a state.
void JobMachine::GiveUpWaiting() {
  const std::string reason = absl::StrCat(
      "only ", roster_.free(), " of at least ", Nodes(life_.spec->min_nodes), " joined within ",
      Seconds(life_.spec->join_timeout), "; ", MissingNodes(View()));
  const auto step = DurableStep();
  if (life_.spec->all_nodes > 0 && step) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(reason, "; the last checkpoint is of step ", *step));
  } else {
    Finish(Outcome::kUnreachable, kExitUnavailable, reason);
  }
}

void JobMachine::LoseSilent() {
  if (!options_.leases || !life_.spec) return;
  for (Node* node = roster_.MostSilent();
       !finished_ && node != nullptr && now_ >= node->heard + life_.spec->lease;
       node = roster_.MostSilent()) {
    if (running() && node->done()) {
      // Its part is finished; it is missed only if the group re-forms.
      roster_.SetSuspect(*node, true);
      roster_.EndLease(*node);
    } else {
      Lose(*node, HowLost::kSilent, absl::StrCat("nothing heard for ", Seconds(life_.spec->lease)));
    }
  }
}

void JobMachine::AdmitHeldBack() {
  timers_.admission.reset();
  for (Node& node : roster_.nodes()) {
    if (!node.held_back.until) continue;
    const TimePoint until = *node.held_back.until;
    if (now_ >= until) {
      HeldBack held_back = node.held_back;
      held_back.until.reset();
      roster_.SetHeldBack(node, std::move(held_back));
      if (node.held_back.any()) continue;
      Log(absl::StrCat(node.spec.host, " is admitted again"));
    } else {
      timers_.admission = std::min(timers_.admission.value_or(until), until);
    }
  }
}

void JobMachine::LoseUnprepared() {
  const std::string why =
      absl::StrCat("it did not prepare its ranks within ", Seconds(options_.forming_timeout));
  std::vector<AgentId> unprepared;
  for (const Node& node : roster_.nodes()) {
    if (node.phase == Phase::kAssigned) unprepared.push_back(node.agent_id);
  }
  for (const AgentId agent_id : unprepared) {
    if (Node* const node = roster_.Find(agent_id); node != nullptr && !finished_) {
      SendTo(*node, Fenced{absl::StrCat("out of the generation: ", why)});
      Lose(*node, HowLost::kSilent, why);
    }
  }
}

std::optional<TimePoint> JobMachine::NextDeadline() {
  if (finished_ || !life_.spec) return std::nullopt;
  std::optional<TimePoint> next = timers_.state;
  const auto consider = [&next](const std::optional<TimePoint>& time) {
    if (time && (!next || *time < *next)) next = time;
  };
  consider(timers_.victim_grace);
  consider(timers_.report);
  consider(hold_until_);
  if (states_wait_) consider(states_wait_->until);
  consider(timers_.growth);
  consider(timers_.admission);
  const auto& stacks = generation_.stacks;
  if (stacks && !stacks->concluding()) consider(std::max(now_, stacks->NextDeadline()));
  if (!stacks || !stacks->for_verdict()) consider(HangDeadline());
  if (options_.leases) {
    if (const Node* node = roster_.MostSilent()) consider(node->heard + life_.spec->lease);
  }
  return next;
}

// ---- hangs ----

void JobMachine::TakeProgress(Node& node, const NodeProgress& progress) {
  if (node.phase != Phase::kStarted) return;
  const Duration still = now_ - generation_.hang.last_moved();
  const bool over = generation_.hang.Take(node.agent_id, progress, now_, &life_.progress.intervals);
  life_.progress.any = life_.progress.any || progress.workers > 0;
  life_.progress.names_phases = life_.progress.names_phases || progress.names_phases;
  if (!over) return;
  timers_.hang_again.reset();
  const std::string text = absl::StrCat(NameOfJob(job_), " moves again, after ", Seconds(still));
  Emit({.kind = JobEvent::Kind::kMovedAgain, .host = node.spec.host, .reason = text});
  WarnAll(text);
}

Duration JobMachine::HangLimit() const {
  const HangPolicy policy = PolicyOfHangs(*life_.spec);
  const Duration limit = generation_.hang.Limit(policy, life_.progress.intervals);
  // A rank that has finished its part leaves the others with what takes as long as it takes.
  const bool tail = generation_.tally.workers_succeeded > 0;
  return tail ? std::max(limit, policy.startup_limit) : limit;
}

void JobMachine::AddProgress(JobStatus* status, TimePoint now) const {
  if (!running() || !generation_.hang.judges()) return;
  JobStatus::Progress progress;
  progress.still = std::max(now - generation_.hang.last_moved(), Duration{});
  if (PolicyOfHangs(*life_.spec).watches) progress.limit = HangLimit();
  if (generation_.hang.called()) progress.hang = generation_.hang_report;
  status->progress = std::move(progress);
}

// After a restart, ranks that reported before are expected to report again. If they are all silent,
// they may all wait for the same file server.
bool JobMachine::JudgesHangs() const {
  const auto& hang = generation_.hang;
  return hang.judges() || (life_.progress.any && hang.all_silent());
}

std::optional<TimePoint> JobMachine::HangDeadline() const {
  if (state_ != JobState::kRunning || !life_.spec || !PolicyOfHangs(*life_.spec).watches ||
      !JudgesHangs() || generation_.incidents.any()) {
    return std::nullopt;
  }
  const auto& hang = generation_.hang;
  if (!hang.called()) {
    const TimePoint at = hang.last_moved() + HangLimit();
    return timers_.hang_again ? std::max(at, *timers_.hang_again) : at;
  }
  if (!timers_.hang_again) return std::nullopt;
  // A debugger that came after the verdict moves last_moved(), and so this time.
  return std::max(*timers_.hang_again, hang.last_moved() + life_.spec->hang_startup_timeout);
}

// Every node that tells of its workers was heard a moment ago: their ranks do not move now.
bool JobMachine::KnowsEveryRank() const {
  const Duration fresh = 2 * life_.spec->heartbeat + std::chrono::milliseconds(500);
  const auto& nodes = roster_.nodes();
  return std::all_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    return !node.member() || node.done() || generation_.hang.Find(node.agent_id) == nullptr ||
           (!node.suspect && now_ - node.heard <= fresh);
  });
}

void JobMachine::ConsiderHang() {
  const auto deadline = HangDeadline();
  if (!deadline || now_ < *deadline) return;
  if (generation_.stacks && generation_.stacks->for_verdict()) return;  // DecideHang comes
  if (!KnowsEveryRank()) {
    timers_.hang_again = now_ + life_.spec->heartbeat;
    return;
  }
  AskForStacks();
  generation_.stacks->SetForVerdict();
}

std::vector<StillNode> JobMachine::StillNodes() const {
  std::vector<StillNode> nodes;
  for (const Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    if (auto told = generation_.hang.Find(node->agent_id)) {
      nodes.push_back({node->first_rank, node->spec.host, node->rank, std::move(told)});
    }
  }
  return nodes;
}

void JobMachine::DecideHang(const StackFindings::Culprit& found, std::vector<std::string> missing) {
  // A rank has moved meanwhile or ended, a worker has failed, or the job is about to stop: no hang
  // any more.
  const auto deadline = HangDeadline();
  if (!deadline || now_ < *deadline) return;
  if (!KnowsEveryRank()) {
    timers_.hang_again = now_ + life_.spec->heartbeat;
    return;
  }
  timers_.hang_again.reset();
  const HangVerdict& verdict = found.verdict;
  const bool again = generation_.hang.called();
  const std::string standstill =
      DescribeStandstill(now_ - generation_.hang.last_moved(), HangLimit(),
                         generation_.furthest_step, generation_.hang.step_seen());
  const auto [restart, next] = AfterHang(verdict, again);
  if (restart && !verdict.culprit) {  // the next heartbeats say which
    timers_.hang_again = now_ + life_.spec->heartbeat;
    return;
  }
  if (!again) CallHang(found, standstill, next, std::move(missing));
  generation_.hang.Call();
  if (!restart) return;
  if (verdict.blames) generation_.hung_host = verdict.culprit->host;
  generation_.incidents.AddHang(CauseOf(found, standstill, generation_.number));
  // Advance stops the generation.
}

void JobMachine::CallHang(const StackFindings::Culprit& found, const std::string& standstill,
                          const std::string& next, std::vector<std::string> missing) {
  const HangVerdict& verdict = found.verdict;
  RootCause cause = CauseOf(found, standstill, generation_.number);
  generation_.hang_report = absl::StrCat("hangs: ", cause.reason);
  HangStacks report;
  report.verdict = {absl::StrCat(NameOfJob(job_), " hangs: ", standstill), verdict.why};
  if (!found.stack.empty()) report.verdict.push_back(absl::StrCat("  ", found.stack));
  if (const auto arrivals = ArrivalsOf(View())) {
    report.verdict.push_back(Describe(*arrivals, generation_.tally.world_size));
  }
  report.missing = std::move(missing);
  if (!report.missing.empty()) {
    report.verdict.push_back(absl::StrCat("no stacks came within ",
                                          Seconds(options_.stacks_timeout), " from ",
                                          FirstOf(report.missing, 8)));
  }
  for (const std::string& line : report.verdict) Log(line);
  report.next = next;
  JobEvent event{.kind = JobEvent::Kind::kHung,
                 .reason = absl::StrCat(standstill, "; ", verdict.why)};
  if (verdict.culprit) {
    event.host = verdict.culprit->host;
    event.cause = std::move(cause);
  }
  event.step = generation_.furthest_step;
  event.stacks = found.for_event;
  Emit(std::move(event));
  report.tree = found.for_nodes;
  SendStacks(std::move(report));
  Log(next);
}

void JobMachine::SendStacks(HangStacks stacks) {
  if (stacks.missing.size() > kMaxMissingHosts) stacks.missing.resize(kMaxMissingHosts);
  HangStacks no_tree = stacks;
  no_tree.tree = std::make_shared<EncodedStackTree>();
  if (const Node* const first = roster_.members().front()) {
    no_tree.verdict.push_back(
        absl::StrCat("the stacks of all ranks are in the run's folder on ", first->spec.host));
  }
  const HangReported whole{std::make_shared<const HangStacks>(std::move(stacks))};
  const HangReported lines{std::make_shared<const HangStacks>(std::move(no_tree))};
  const auto trees = static_cast<int>(options_.hang_bytes_of_all_nodes / ShownStackBytes());
  actions_.reserve(actions_.size() + static_cast<std::size_t>(roster_.size()));
  for (const Node& node : roster_.nodes()) {
    if (node.suspect) continue;
    const bool gets_tree = roster_.size() <= trees || (node.member() && node.rank.value < trees);
    SendTo(node, gets_tree ? whole : lines);
  }
}

std::size_t JobMachine::ShownStackBytes() const {
  const auto nodes = static_cast<std::size_t>(std::max(roster_.size(), 1));
  return std::clamp(options_.hang_bytes_of_all_nodes / nodes, kMinShownStackBytes,
                    kMaxSentStackTreeBytes);
}

// Whether the workers are started again, and what a person reads of it.
std::pair<bool, std::string> JobMachine::AfterHang(const HangVerdict& verdict, bool again) {
  const JobSpec& spec = *life_.spec;
  const bool tail = generation_.tally.workers_succeeded > 0;
  if (spec.on_hang == JobSpec::kReportHang || tail) {
    return {false, tail ? "a rank has ended with 0: the others are left alone"
                        : "the workers are left alone (--on-hang report)"};
  }
  if (spec.on_hang == JobSpec::kRestartHang) {
    return {true, "the workers are ended, and started again where a restart is left"};
  }
  const bool loses_nothing =
      life_.told_of_states || life_.reports_checkpoints || !generation_.hang.step_seen();
  if (!life_.progress.names_phases || !loses_nothing) {
    return {false,
            life_.progress.names_phases
                ? "the workers are left alone: no state was saved yet (--on-hang restart starts "
                  "them again all the same)"
                : "the workers are left alone: the program names no phases, so this may be an "
                  "evaluation (--on-hang restart starts them again all the same)"};
  }
  if (verdict.busy && !again) {
    const TimePoint at =
        std::max(generation_.hang.last_moved() + spec.hang_startup_timeout, now_ + spec.heartbeat);
    timers_.hang_again = at;
    return {false,
            absl::StrCat("it uses the CPU or does I/O, so it is ended only if it goes on for ",
                         Seconds(at - now_), " more (--hang-startup-timeout)")};
  }
  return {true, "the workers are ended, and started again where a restart is left"};
}

void JobMachine::WarnAll(const std::string& text) {
  Log(text);
  for (const Node& node : roster_.nodes()) {
    if (!node.suspect) SendTo(node, Warning{text});
  }
}

// ---- stacks ----

void JobMachine::AskForStacks() {
  std::vector<std::uint64_t> waiting;
  std::uint64_t last = 0;
  if (generation_.stacks) {
    waiting = generation_.stacks->tickets();
    last = generation_.stacks->request().value;
    actions_.push_back(ForgetStacks{generation_.stacks->request()});
  }
  StackCollection& stacks = generation_.stacks.emplace(
      StackRequestId{DrawNumber(last)}, now_ + options_.stacks_timeout, options_.stacks_pace);
  for (const std::uint64_t ticket : waiting) stacks.AddTicket(ticket);
  for (const Node* const node : roster_.members()) {
    if (node == nullptr || node->phase != Phase::kStarted || node->done()) continue;
    const auto first = static_cast<std::uint32_t>(node->first_rank.value);
    const auto count = static_cast<std::uint32_t>(node->spec.worker_count);
    stacks.Await(node->agent_id, node->spec.host, {first, first + count - 1});
  }
  AskMoreForStacks();
}

void JobMachine::AskMoreForStacks() {
  if (!generation_.stacks || generation_.stacks->concluding()) return;
  for (const AgentId agent_id : generation_.stacks->TakeToAsk(now_)) {
    const Node* const node = roster_.Find(agent_id);
    if (node != nullptr && !node->suspect) AskForStacks(*node);  // else when it is back
  }
}

void JobMachine::AskForStacks(const Node& node) {
  const auto& stacks = generation_.stacks;
  if (!stacks || stacks->concluding() || !stacks->Awaits(node.agent_id)) return;
  SendTo(node, TakeStacks{stacks->request()});
}

// One that answers an earlier request, or comes too late, is nobody's any more.
void JobMachine::OnStacksTaken(Node& node, const StacksTaken& taken) {
  auto& stacks = generation_.stacks;
  if (!stacks || stacks->request() != taken.request) return;
  if (stacks->concluding() || !stacks->Awaits(node.agent_id)) return;
  auto [host, ranks] = stacks->Answered(node.agent_id);
  actions_.push_back(MergeStacks{taken.request, std::move(host), ranks, taken.tree});
}

void JobMachine::ConcludeStacks() {
  StackCollection& stacks = *generation_.stacks;
  if (stacks.concluding()) return;
  stacks.SetConcluding();
  StackQuestion question;
  if (stacks.for_verdict()) {
    // All ranks make steps: one that is silent after another one's step never tells anything.
    question.culprit = {StillNodes(), !generation_.hang.step_seen()};
    question.sent_bytes = ShownStackBytes();
  }
  actions_.push_back(
      JudgeStacks{stacks.request(), std::make_shared<const StackQuestion>(std::move(question))});
}

void JobMachine::OnStacksMerged(const StacksMerged& merged) {
  auto& stacks = generation_.stacks;
  if (stacks && stacks->request() == merged.request) stacks->Merged(merged.trees);
}

void JobMachine::OnStacksJudged(const StacksJudged& judged) {
  if (!generation_.stacks || generation_.stacks->request() != judged.request) return;
  StackCollection stacks = *std::exchange(generation_.stacks, std::nullopt);
  for (const auto& [host, why] : judged.findings->refused) {
    Log(absl::StrCat("the stacks of ", host, " are not used: ", why));
    stacks.Refuse(host);
  }
  if (judged.findings->culprit) DecideHang(*judged.findings->culprit, stacks.Missing());
  if (stacks.tickets().empty()) return;
  ShowStacks shown{0, judged.findings->tree, stacks.Missing()};
  for (const std::uint64_t ticket : stacks.tickets()) {
    shown.ticket = ticket;
    actions_.push_back(shown);
  }
}

void JobMachine::DropStacks(const std::string& why) {
  if (!generation_.stacks) return;
  const StackCollection stacks = *std::exchange(generation_.stacks, std::nullopt);
  actions_.push_back(ForgetStacks{stacks.request()});
  for (const std::uint64_t ticket : stacks.tickets()) {
    actions_.push_back(Answer{ticket, false, absl::StrCat("there are no stacks: ", why)});
  }
}

}  // namespace ddprun
