#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/stacks/stack_text.h"

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
  // Names come from files that anybody may have made: they need not be UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

int ShowStacks(const StacksCommand& command) {
  std::vector<stacks::StackTarget> targets;
  for (const int pid : command.pids) targets.push_back({static_cast<std::uint32_t>(pid), pid});
  const stacks::TakenStacks taken =
      stacks::TakeStacks(targets, std::chrono::steady_clock::now() + command.timeout);
  StackTextOptions options;
  options.label = "pid";
  if (command.full) options.most_in_line = 0;
  std::fputs(command.json ? JsonText(targets, taken).c_str() : ToText(taken.tree, options).c_str(),
             stdout);
  if (taken.refused > 0) return kExitRefused;
  return taken.missing > 0 ? 1 : 0;
}

}  // namespace ddprun
