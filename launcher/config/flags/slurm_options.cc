// The command line of `ddprun slurm`.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/subcommands.h"

namespace ddprun {
namespace {

constexpr absl::string_view kSlurmUsage =
    "Writes the batch script of a job file and submits it to Slurm. The file's section `slurm` "
    "says\n"
    "what to ask for. The script makes the job survive preemption, time limits and lost nodes;\n"
    "docs/slurm.md.\n"
    "\n"
    "  ddprun slurm FILE [--dry-run] [-- OPTIONS OF SBATCH...]\n"
    "\n";

}  // namespace

HelpCommand SlurmHelp() { return HelpFor(kSlurmUsage, SlurmFlags()); }

Command ParseSlurm(const std::vector<std::string>& arguments, const Host& host) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const FlagReading reading =
      ReadFlags(SlurmFlags(), {arguments.begin(), dashes}, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, SlurmHelp)) return *std::move(end);
  if (reading.rest.size() != 1) {
    return UsageError({absl::StrCat("slurm: expected one job file (found ", reading.rest.size(),
                                    "); ddprun slurm FILE [--dry-run] [-- OPTIONS OF SBATCH...]")});
  }
  SlurmCommand command{reading.rest.front(), reading.IsOn("dry-run"), {}};
  if (dashes != arguments.end()) command.sbatch_options.assign(dashes + 1, arguments.end());
  return command;
}

}  // namespace ddprun
