#include "rendezvous/machine/hangs/not_judged.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/hangs/hang_watch.h"

namespace ddprun {
namespace {

using NotJudged = JobStatus::NotJudged;

// The longest excuse of all members.
std::optional<NotJudged::Excuse> LongestExcuse(const HangWatch& hang, const Roster& roster,
                                               TimePoint now) {
  std::optional<NotJudged::Excuse> longest;
  for (const Node* const node : roster.members()) {
    const auto told = node == nullptr ? nullptr : hang.Find(node->agent_id);
    if (told == nullptr || !told->excuse) continue;
    NotJudged::Excuse excuse = ExcuseOf(*node, *told->excuse);
    excuse.lasts += now - node->heard;
    if (!longest || excuse.lasts > longest->lasts) longest = std::move(excuse);
  }
  return longest;
}

}  // namespace

NotJudged::Excuse ExcuseOf(const Node& node, const HangExcuse& told) {
  NotJudged::Excuse excuse{{}, node.spec.host, told.pid, told.why, told.lasts};
  if (told.local_rank) excuse.rank = Rank{node.first_rank.value + told.local_rank->value};
  return excuse;
}

std::string WhoIsExcused(const NotJudged::Excuse& excuse) {
  const std::string who = excuse.rank ? absl::StrCat("rank ", excuse.rank->value, " on ",
                                                     excuse.host, " (pid ", excuse.pid, ")")
                                      : absl::StrCat("ddprun on ", excuse.host);
  return absl::StrCat(who, " ", excuse.why);
}

std::string Describe(const NotJudged::Excuse& excuse) {
  return absl::StrCat(WhoIsExcused(excuse), " since ", ForHowLong(excuse.lasts));
}

std::optional<NotJudged> WhyNotJudged(const JobLife& life, const GenerationState& generation,
                                      const Roster& roster, TimePoint now) {
  if (!PolicyOfHangs(*life.spec).watches) return NotJudged{"--hang-timeout off"};
  const HangWatch& hang = generation.hang;
  if (!hang.judges() && !life.progress.any) {
    return NotJudged{
        "no worker has told a step (Python: --auto-step, or ddprun.step(n) in the script; other "
        "programs: STEP=n)"};
  }
  // While ranks move, an excuse delays nothing.
  if (now - hang.really_moved() < NodeProgress::kDetailsAfter) return std::nullopt;
  auto excuse = LongestExcuse(hang, roster, now);
  if (!excuse) return std::nullopt;
  std::string why = Describe(*excuse);
  return NotJudged{std::move(why), std::move(excuse)};
}

}  // namespace ddprun
