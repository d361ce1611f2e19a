// The command lines of `ddprun slurm` and `ddprun kubernetes`.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/subcommands.h"

namespace ddprun {
namespace {

constexpr absl::string_view kSlurmUsage =
    "Writes the batch script of a job file and submits it to Slurm. The section `slurm` of the "
    "file\n"
    "says what to request. The script makes the job survive preemption, time limits and\n"
    "lost nodes; docs/slurm.md.\n"
    "\n"
    "  ddprun slurm FILE [--dry-run] [-- OPTIONS OF SBATCH...]\n"
    "\n";

constexpr absl::string_view kKubernetesUsage =
    "Prints the Kubernetes manifest of a job file, for `kubectl apply -f -`. The section "
    "`kubernetes` of\n"
    "the file says what to request. The manifest makes the job survive evictions and lost nodes;\n"
    "docs/kubernetes.md.\n"
    "\n"
    "  ddprun kubernetes FILE [--jobset]\n"
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

HelpCommand KubernetesHelp() { return HelpFor(kKubernetesUsage, KubernetesFlags()); }

Command ParseKubernetes(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(KubernetesFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, KubernetesHelp)) return *std::move(end);
  if (reading.rest.size() != 1) {
    return UsageError({absl::StrCat("kubernetes: expected one job file (found ",
                                    reading.rest.size(), "); ddprun kubernetes FILE [--jobset]")});
  }
  return KubernetesCommand{reading.rest.front(), reading.IsOn("jobset")};
}

}  // namespace ddprun
