// The command lines of `ddprun validate` and `ddprun init`.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/run_options.h"
#include "launcher/config/flags/subcommands.h"
#include "launcher/config/job_keys.h"
#include "launcher/config/job_values.h"

namespace ddprun {
namespace {

constexpr absl::string_view kValidateUsage =
    "Prints the job that a file describes, with every default, as a job file. If the file has an\n"
    "error, prints FILE:LINE:COLUMN: KEY: what was expected, and exits with 65.\n"
    "\n"
    "  ddprun validate FILE [OPTIONS]\n"
    "\n";

constexpr absl::string_view kInitUsage =
    "Writes a job file. It asks for the program, the nodes and the workers on each node. With "
    "COMMAND\n"
    "it asks nothing. Then it prints how to start the job.\n"
    "\n"
    "  ddprun init [OPTIONS] [--] [COMMAND [ARGS...]]\n"
    "\n";

}  // namespace

HelpCommand ValidateHelp() { return HelpFor(kValidateUsage, ValidateFlags()); }

Command ParseValidate(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(ValidateFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, ValidateHelp)) return *std::move(end);
  if (const std::string conflict = VerbosityConflict(reading); !conflict.empty()) {
    return UsageError({conflict});
  }
  if (reading.rest.size() != 1) {
    return UsageError({absl::StrCat("validate: expected one job file (found ", reading.rest.size(),
                                    "); ddprun validate FILE")});
  }
  return ValidateCommand{reading.rest.front(), reading.IsOn("json"), Verbosity(reading)};
}

HelpCommand InitHelp() { return HelpFor(kInitUsage, InitFlags()); }

Command ParseInit(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(InitFlags(), arguments, Positionals::kEndOptions, host);
  if (auto end = EarlyEnd(reading, InitHelp)) return *std::move(end);
  InitCommand command;
  std::vector<std::string> errors;
  for (const GivenFlag& flag : reading.given) {
    if (flag.spec->effect != FlagEffect::kSetsKey) continue;
    const std::string key(flag.spec->key);
    const absl::Status status = SetFromText(*FindJobKey(key), flag.value, &command.draft);
    if (!status.ok()) errors.push_back(absl::StrCat(flag.origin.place, ": ", status.message()));
    command.draft.origins[key] = flag.origin;
  }
  if (const GivenFlag* const output = reading.Find("output")) command.path = output->value;
  command.replace = reading.IsOn("force");
  if (!reading.rest.empty()) {
    if (reading.rest.front().empty()) errors.emplace_back("COMMAND: expected a program");
    command.draft.config.command = reading.rest;
    command.draft.origins["command"] = {Source::kFlag, "COMMAND"};
  }
  if (!errors.empty()) return UsageError(errors);
  return command;
}

}  // namespace ddprun
