#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "launcher/commands/commands.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/stacks/stack_text.h"

namespace ddprun {

int ShowStacks(const StacksCommand& command) {
  std::vector<stacks::StackTarget> targets;
  for (const int pid : command.pids) targets.push_back({static_cast<std::uint32_t>(pid), pid});
  const stacks::TakenStacks taken =
      stacks::TakeStacks(targets, std::chrono::steady_clock::now() + command.timeout);
  StackTextOptions options;
  options.label = "pid";
  if (command.full) options.most_in_line = 0;
  const std::string text =
      command.json
          ? ToJson(taken.tree, options.label)
                    .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                "\n"
          : ToText(taken.tree, options);
  std::fputs(text.c_str(), stdout);
  if (taken.refused > 0) return kExitRefused;
  return taken.missing > 0 ? 1 : 0;
}

}  // namespace ddprun
