// The command line of `ddprun validate`.
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/run_options.h"
#include "launcher/config/flags/subcommands.h"

namespace ddprun {
namespace {

constexpr absl::string_view kValidateUsage =
    "Prints the job that a file describes, with every default, as a job file. When something is\n"
    "wrong with it: FILE:LINE:COLUMN: KEY: what was expected, and exit code 65.\n"
    "\n"
    "  ddprun validate FILE [OPTIONS]\n"
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

}  // namespace ddprun
