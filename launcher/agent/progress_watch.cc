#include "launcher/agent/progress_watch.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "launcher/log.h"
#include "launcher/text/printable.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxNames = 32;  // of counted phases per worker

void CountBegun(ProgressSnapshot* snapshot) {
  auto& begun = snapshot->begun;
  const auto found = std::find_if(begun.begin(), begun.end(), [&](const ProgressBegun& each) {
    return each.name == snapshot->phase_name;
  });
  if (found != begun.end()) {
    ++found->times;
  } else if (begun.size() < kMaxNames) {
    begun.push_back({*snapshot->phase, snapshot->phase_name, 1});
  }
}

void SetPhase(ProgressPhase phase, const std::string& name, TimePoint now, ProgressSnapshot* to) {
  to->phase = phase;
  to->phase_name = Printable(name).substr(0, kProgressNameBytes);
  to->phase_since_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  CountBegun(to);
}

// Merges the page into `told`, the progress by messages.
void Add(ProgressSnapshot& page, WorkerProgress* told) {
  ProgressSnapshot& now = told->now;
  page.moves += now.moves;
  if (page.only_collectives) {
    now.moves = page.moves;
    now.groups = std::move(page.groups);
    if (told->source == ProgressSource::kNone) told->source = ProgressSource::kMessages;
    return;
  }
  told->source = ProgressSource::kPage;
  now = std::move(page);
  now.phase_name = Printable(now.phase_name);
  for (ProgressBegun& begun : now.begun) begun.name = Printable(begun.name);
}

// Only the process that does the work sends these. Another process of the rank may say that steps
// will follow (TELLS=1).
bool IsOfTheWork(const ControlMessage& message) {
  return std::holds_alternative<StepMsg>(message) || std::holds_alternative<PhaseMsg>(message) ||
         std::holds_alternative<ReadyMsg>(message);
}

}  // namespace

void ProgressWatch::BeginGeneration(Generation generation, bool will_tell) {
  generation_ = generation;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.told = {};
    worker.told.local_rank = LocalRank{static_cast<int>(i)};
    worker.told.now.generation = generation.value;
    if (will_tell) worker.told.source = ProgressSource::kMessages;
    worker.page.reset();
    worker.seen_moves = 0;
    worker.speaker = {};
  }
}

void ProgressWatch::OnMessage(LocalRank local_rank, const ControlMessage& message, TimePoint now,
                              const ProcessId& speaker) {
  WorkerProgress& told = workers_[local_rank.value].told;
  ProcessId& known = workers_[local_rank.value].speaker;
  if (known == ProcessId{} || IsOfTheWork(message)) known = speaker;
  told.moved_at = now;
  ++told.now.moves;
  if (told.source == ProgressSource::kNone) told.source = ProgressSource::kMessages;
  if (const auto* step = std::get_if<StepMsg>(&message)) {
    told.now.step = step->step;
    // The end of a step ends the phase of the last PHASE message.
    if (told.now.phase != ProgressPhase::kStep)
      SetPhase(ProgressPhase::kStep, "step", now, &told.now);
  } else if (const auto* phase = std::get_if<PhaseMsg>(&message)) {
    SetPhase(ProgressPhaseOf(phase->name), phase->name, now, &told.now);
  } else if (const auto* tells = std::get_if<TellsMsg>(&message)) {
    const bool has_told = told.now.step >= 0 || told.now.phase != ProgressPhase::kStart;
    if (!tells->tells && !has_told) told.source = ProgressSource::kNone;
  } else if (std::holds_alternative<ByeMsg>(message)) {
    told.said_bye = true;
    SetPhase(ProgressPhase::kEnd, "end", now, &told.now);
  }
}

std::optional<ProcessId> ProgressWatch::SpeakerOf(LocalRank local_rank) const {
  const ProcessId& speaker = workers_[local_rank.value].speaker;
  if (!IsAlive(speaker)) return std::nullopt;
  return speaker;
}

int ProgressWatch::PageOf(LocalRank local_rank) {
  std::optional<ProgressPageFile>& page = workers_[local_rank.value].page;
  if (!page) {
    auto made = ProgressPageFile::Make();
    if (!made.ok()) {
      if (!std::exchange(said_why_, true)) {
        LogWarning(absl::StrCat(made.status().message(),
                                "; ddprun knows only the messages that workers send"));
      }
      return -1;
    }
    page.emplace(*std::move(made));
  }
  return page->descriptor();
}

std::vector<WorkerProgress> ProgressWatch::Read(TimePoint now) {
  std::vector<WorkerProgress> all;
  all.reserve(workers_.size());
  for (Worker& worker : workers_) {
    all.push_back(worker.told);
    WorkerProgress& progress = all.back();
    auto page = worker.page ? worker.page->Read() : std::nullopt;
    if (page) Add(*page, &progress);
    if (progress.now.moves != worker.seen_moves) {
      worker.seen_moves = progress.now.moves;
      // Without a page, OnMessage() has set moved_at.
      if (page) worker.told.moved_at = now;
      progress.moved_at = worker.told.moved_at;
    }
  }
  return all;
}

}  // namespace ddprun
