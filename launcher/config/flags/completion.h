// The completion scripts of `ddprun completion bash|zsh`. They are made from the tables of flags,
// so a new flag needs no change here. Pure.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_COMPLETION_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_COMPLETION_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/flags.h"

namespace ddprun {

// The argument after the flags of a subcommand. kJob, kNodeAndJob: the shell asks the rendezvous
// for values.
enum class CompletedArgument { kNone, kFile, kFolder, kShell, kSubcommand, kJob, kNodeAndJob };

struct CompletedSubcommand {
  absl::string_view name;
  absl::string_view help;  // a few words, lower case
  CompletedArgument argument;
  absl::Span<const FlagSpec> flags;
};

// Every subcommand, without `ddprun [OPTIONS] COMMAND`.
absl::Span<const CompletedSubcommand> CompletedSubcommands();

// The complete script, for a file that the shell sources.
std::string CompletionScript(CompletionCommand::Shell shell);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_COMPLETION_H_
