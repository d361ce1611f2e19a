// The command line of `ddprun completion`.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/subcommands.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr absl::string_view kCompletionUsage =
    "Prints what a shell needs to complete the flags and subcommands of ddprun.\n"
    "\n"
    "  ddprun completion bash|zsh\n"
    "\n"
    "For this shell:\n"
    "\n"
    "  source <(ddprun completion bash)               or zsh\n"
    "\n"
    "An installed ddprun has it in share/bash-completion and share/zsh already.\n";

}  // namespace

HelpCommand CompletionHelp() { return HelpFor(kCompletionUsage, {}); }

Command ParseCompletion(const std::vector<std::string>& arguments, const Host&) {
  if (arguments.size() == 1) {
    if (arguments.front() == "bash") return CompletionCommand{CompletionCommand::Shell::kBash};
    if (arguments.front() == "zsh") return CompletionCommand{CompletionCommand::Shell::kZsh};
    if (arguments.front() == "--help" || arguments.front() == "-h") {
      return CompletionHelp();
    }
  }
  return UsageError(
      {absl::StrCat("completion: expected bash or zsh (found ",
                    arguments.empty() ? "nothing" : Quoted(absl::StrJoin(arguments, " ")), ")")});
}

}  // namespace ddprun
