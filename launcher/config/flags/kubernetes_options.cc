// The command line of `ddprun kubernetes`.
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/subcommands.h"

namespace ddprun {
namespace {

constexpr absl::string_view kKubernetesUsage =
    "Prints the Kubernetes manifest of a job file, for `kubectl apply -f -`. The file's section\n"
    "`kubernetes` says what to ask for. The manifest makes the job survive evictions and lost "
    "nodes;\n"
    "docs/kubernetes.md.\n"
    "\n"
    "  ddprun kubernetes FILE [--jobset]\n"
    "\n";

}  // namespace

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
