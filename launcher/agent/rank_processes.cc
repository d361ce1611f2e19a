#include "launcher/agent/rank_processes.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "launcher/stacks/process_facts.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostForkers = 64;   // threads per process whose children are looked for
constexpr std::size_t kMostCounted = 256;  // per rank, for the count

constexpr std::size_t kMostPeers = 4;  // per rank, in the report

std::uint32_t NumberOf(Rank rank) { return static_cast<std::uint32_t>(rank.value); }

void AddUnansweredPeers(const RankProcess& rank, StackTree* tree) {
  for (const auto& [address, tries] : stacks::UnansweredPeersOf(rank.process.pid, kMostPeers)) {
    tree->Add(RankNote{NumberOf(rank.rank), RankTrouble::kNoAnswer,
                       absl::StrCat("no answer from ", address, " to ", tries,
                                    tries == 1 ? " repetition" : " repetitions")});
  }
}

}  // namespace

std::vector<pid_t> WithDescendants(pid_t pid, std::size_t most) {
  std::vector<pid_t> all{pid};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const pid_t thread : stacks::ThreadsOf(all[i], kMostForkers)) {
      const std::string children =
          stacks::ReadProc(absl::StrCat("/proc/", all[i], "/task/", thread, "/children"));
      for (const absl::string_view word : absl::StrSplit(children, ' ', absl::SkipWhitespace())) {
        pid_t child = 0;
        if (all.size() < most && absl::SimpleAtoi(word, &child)) all.push_back(child);
      }
    }
  }
  return all;
}

std::vector<pid_t> ProcessesOf(pid_t speaker, pid_t worker, std::size_t most) {
  std::vector<pid_t> all = WithDescendants(speaker, most);
  if (speaker == worker) return all;
  for (const pid_t pid : WithDescendants(worker, most)) {
    const bool known = std::find(all.begin(), all.end(), pid) != all.end();
    if (!known && all.size() < most) all.push_back(pid);
  }
  return all;
}

StackTree TakeStacksOf(absl::Span<const RankProcess> ranks,
                       std::chrono::steady_clock::time_point deadline,
                       stacks::StackUrgency urgency) {
  std::vector<stacks::StackTarget> targets;
  std::vector<stacks::StackTarget> others;
  std::vector<RankNote> notes;
  for (const RankProcess& rank : ranks) {
    targets.push_back({NumberOf(rank.rank), rank.process.pid, rank.process.started});
    std::vector<pid_t> all = ProcessesOf(rank.process.pid, rank.worker, kMostCounted);
    all.erase(all.begin());
    if (all.size() > kMostShownProcesses) {
      notes.push_back({NumberOf(rank.rank), RankTrouble::kIncomplete,
                       absl::StrCat("of ", all.size(), " other processes of it, ",
                                    kMostShownProcesses, " are shown")});
      all.resize(kMostShownProcesses);
    }
    for (const pid_t pid : all) {
      others.push_back({NumberOf(rank.rank), pid, ProcessIdOf(pid).started, /*is_other=*/true});
    }
  }
  targets.insert(targets.end(), others.begin(), others.end());
  StackTree tree = stacks::TakeStacks(targets, deadline, urgency).tree;
  for (RankNote& note : notes) tree.Add(std::move(note));
  for (const RankProcess& rank : ranks) {
    if (IsAlive(rank.process)) AddUnansweredPeers(rank, &tree);
  }
  return tree;
}

}  // namespace ddprun
