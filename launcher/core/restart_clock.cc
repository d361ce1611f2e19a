#include "launcher/core/restart_clock.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxPhases = 16;  // further phases count as part of the last one

// The phases that this clock measures for every program.
constexpr absl::string_view kOwn[] = {"stop", "round", "spawn", "load", "process_group", "setup"};

bool IsOwn(absl::string_view name) { return absl::c_linear_search(kOwn, name); }

// The name to show. A program's own phase may have one of our names, for example `load`.
std::string ShownName(const std::string& told) {
  if (told == "init") return "process_group";
  if (told == "ready") return "setup";
  return IsOwn(told) ? absl::StrCat("program_", told) : told;
}

// True for the phases of Checkpointer. They come once per start, in a fixed order. A program's own
// phases come at any time and repeatedly.
bool IsOfTheLibrary(absl::string_view name) { return name == "restore" || name == "first_step"; }

}  // namespace

void RestartClock::GenerationEnded(TimePoint now) {
  Close();
  measuring_ = true;
  times_ = {};
  phases_.clear();
  stepped_.clear();
  Begin("stop", now);
}

void RestartClock::NoWorkerLeft(TimePoint now) {
  if (measuring_ && phases_.back().name == "stop") Begin("round", now);
}

void RestartClock::GenerationStarted(Generation generation, TimePoint now) {
  times_.generation = generation;
  Begin("spawn", now);
}

void RestartClock::WorkersSpawned(int warm, TimePoint now) {
  times_.warm_workers = warm;
  // Drop phases that a worker began before the last worker was started, because the last worker has
  // not begun them yet.
  while (!phases_.empty() && phases_.back().name != "spawn") phases_.pop_back();
  Begin("load", now);
}

void RestartClock::PhaseBegan(LocalRank local_rank, const std::string& name, TimePoint now) {
  const std::string known = ShownName(name);
  const auto begun = std::find_if(phases_.begin(), phases_.end(),
                                  [&](const Phase& phase) { return phase.name == known; });
  if (!measuring_ || !stepped_.empty()) return;
  if (begun == phases_.end()) {
    Begin(known, now);
    if (phases_.back().name == known) phases_.back().workers.insert(local_rank);
    return;
  }
  // A phase begins when its last worker enters it. If a worker enters it again, this does not
  // count.
  if (!begun->workers.insert(local_rank).second) return;
  if (begun + 1 == phases_.end()) begun->begin = seen_ = now;
}

void RestartClock::StepMade(LocalRank local_rank, TimePoint now) {
  if (!measuring_) return;
  stepped_.insert(local_rank);
  if (stepped_.size() == static_cast<std::size_t>(workers_)) Complete(now, true);
}

std::optional<RestartTimes> RestartClock::Take() { return std::exchange(complete_, std::nullopt); }

void RestartClock::Close() {
  const bool started = std::any_of(phases_.begin(), phases_.end(),
                                   [](const Phase& phase) { return phase.name == "load"; });
  if (measuring_ && started) {
    // Without a first step the end of the start is unknown, and the program's own phases may have
    // come hours later.
    const auto last = std::find_if(phases_.rbegin(), phases_.rend(), [](const Phase& phase) {
      return IsOwn(phase.name) || IsOfTheLibrary(phase.name);
    });
    phases_.erase(last.base(), phases_.end());
    Complete(seen_, false);
  }
  measuring_ = false;
}

void RestartClock::Begin(const std::string& name, TimePoint now) {
  if (!measuring_ || phases_.size() >= kMaxPhases) return;
  phases_.push_back({name, now, {}});
  seen_ = now;
}

void RestartClock::Complete(TimePoint end, bool to_first_step) {
  times_.to_first_step = to_first_step;
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const bool last = i + 1 == phases_.size();
    if (last && !to_first_step) break;  // its duration is unknown
    const TimePoint until = last ? end : phases_[i + 1].begin;
    times_.phases.push_back(
        {phases_[i].name,
         std::chrono::duration_cast<std::chrono::microseconds>(until - phases_[i].begin).count()});
  }
  complete_ = std::move(times_);
  measuring_ = false;
}

std::string Describe(const RestartTimes& times, int workers) {
  const auto ms = [](std::int64_t microseconds) {
    return absl::StrFormat("%.1f", static_cast<double>(microseconds) / 1000);
  };
  std::string text = absl::StrCat("restart into generation ", times.generation.value,
                                  times.to_first_step ? ", to the first step" : "", ": ",
                                  ms(times.total_microseconds()), " ms (");
  const char* separator = "";
  for (const PhaseTime& phase : times.phases) {
    absl::StrAppend(&text, separator, phase.name, " ", ms(phase.microseconds));
    separator = ", ";
  }
  absl::StrAppend(&text, ")");
  if (times.warm_workers > 0) {
    absl::StrAppend(&text, ", ", times.warm_workers, " of ", workers, " workers from standbys");
  }
  return text;
}

}  // namespace ddprun
