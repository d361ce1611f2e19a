// The command line of `ddprun doctor`.
#include <utility>

#include "absl/strings/string_view.h"
#include "launcher/config/flags/run_options.h"
#include "launcher/config/flags/subcommands.h"

namespace ddprun {
namespace {

constexpr absl::string_view kDoctorUsage =
    "Checks whether a job can run on this node: names and addresses, ports, the clock, limits, "
    "memory,\n"
    "GPUs, the libraries of COMMAND, and credentials. Takes the options of a job, and starts "
    "nothing.\n"
    "Exit code 1 if something would keep the job from running.\n"
    "\n"
    "  ddprun doctor [--json] [OPTIONS] [--] [COMMAND [ARGS...]]\n"
    "\n";

}  // namespace

HelpCommand DoctorHelp() { return HelpFor(kDoctorUsage, RunFlags()); }

// As for a job, but that a command is not needed.
Command ParseDoctor(const std::vector<std::string>& arguments, const Host& host) {
  FlagReading reading = ReadFlags(RunFlags(), arguments, Positionals::kEndOptions, host);
  if (auto end = EarlyEnd(reading, DoctorHelp)) return *std::move(end);
  const bool json = reading.IsOn("json");
  std::erase_if(reading.given, [](const GivenFlag& flag) { return flag.spec->name == "json"; });
  const bool nothing_to_run = reading.rest.empty() && reading.Find("config") == nullptr;
  if (nothing_to_run) reading.rest = {"true"};
  Command job = MakeRunCommand(reading, host);
  auto* const run = std::get_if<RunCommand>(&job);
  if (run == nullptr) return job;
  if (nothing_to_run) run->config.command.clear();
  return DoctorCommand{std::move(run->config), json};
}

}  // namespace ddprun
