// ddprun stacks.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/operator.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/json/dump.h"
#include "rendezvous/stacks/rank_stacks.h"
#include "rendezvous/stacks/stack_text.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

std::string JsonText(const std::vector<stacks::StackTarget>& targets,
                     const stacks::TakenStacks& taken) {
  nlohmann::ordered_json json = ToJson(taken.tree, "pid");
  nlohmann::ordered_json held = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    held.push_back(
        {{"pid", targets[i].pid},
         {"us", std::chrono::duration_cast<std::chrono::microseconds>(taken.held[i]).count()}});
  }
  json["held"] = std::move(held);
  return Dump(json, 2) + "\n";
}

StackTextOptions TextOptions(absl::string_view label, bool full) {
  StackTextOptions options;
  options.label = label;
  if (full) options.most_in_line = 0;
  return options;
}

}  // namespace

int ShowStacks(const StacksCommand& command) {
  std::vector<stacks::StackTarget> targets;
  for (const int pid : command.pids) targets.push_back({static_cast<std::uint32_t>(pid), pid});
  const stacks::TakenStacks taken =
      stacks::TakeStacks(targets, std::chrono::steady_clock::now() + command.timeout,
                         stacks::StackUrgency::kBesideTraining);
  PrintOut(command.json ? JsonText(targets, taken)
                        : ToText(taken.tree, TextOptions("pid", command.full)));
  if (taken.refused > 0) return kExitRefused;
  return taken.missing > 0 ? 1 : 0;
}

int ShowJobStacks(const OperatorCommand& command, OperatorClient& client) {
  auto stacks = client.Stacks(command.job);
  if (!stacks.ok()) return FailOperator(command, stacks.status());
  if (command.rank) {
    stacks->tree = OnlyRanks(stacks->tree, RankSet(static_cast<std::uint32_t>(*command.rank)));
  }
  const StackTree& tree = stacks->tree;
  if (command.json) {
    nlohmann::ordered_json json = ToJson(tree, "rank");
    json["job"] = command.job;
    json["missing"] = stacks->missing;
    PrintOut(Dump(json, 2) + "\n");
  } else {
    PrintOut(ToText(tree, TextOptions("rank", command.full)));
  }
  if (!stacks->missing.empty()) {
    FailOperator(command,
                 absl::UnavailableError(absl::StrCat("no stacks came in time from ",
                                                     absl::StrJoin(stacks->missing, ", "))));
  }
  const auto is_refused = [](const RankNote& note) {
    return note.trouble == RankTrouble::kNotPermitted;
  };
  if (std::any_of(tree.notes().begin(), tree.notes().end(), is_refused)) return kExitRefused;
  const bool none = tree.Ranks().empty();
  if (none && stacks->missing.empty()) {
    FailOperator(
        command,
        absl::NotFoundError(
            command.rank
                ? absl::StrCat(NameOfJob(command.job), " has no rank ", *command.rank, " now")
                : absl::StrCat("no worker of ", NameOfJob(command.job), " is left")));
  }
  return none || !stacks->missing.empty() ? 1 : 0;
}

}  // namespace ddprun
