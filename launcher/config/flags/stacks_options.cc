// The command line of `ddprun stacks --pid`. `ddprun stacks JOB` is in operator_options.cc.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/config/flags/subcommands.h"
#include "launcher/config/values.h"

namespace ddprun {

Command StacksOfProcesses(const FlagReading& reading) {
  std::vector<std::string> errors;
  StacksCommand command;
  if (!reading.rest.empty()) {
    errors.push_back(absl::StrCat("stacks: expected nothing but flags beside --pid (found ",
                                  Quoted(absl::StrJoin(reading.rest, " ")),
                                  "); ddprun help stacks"));
  }
  if (reading.Find("rank") != nullptr) {
    errors.push_back(
        "--rank, --pid: leave one of them out; --rank goes with a job: ddprun stacks JOB");
  }
  for (const std::string& pid : reading.FindAll("pid")) {
    const auto number = ParseWholeNumber(pid);
    if (!number.has_value() || *number < 1 || *number > std::numeric_limits<int>::max()) {
      errors.push_back(
          absl::StrCat("--pid: expected the number of a process (found ", Quoted(pid), ")"));
      continue;
    }
    const int process = static_cast<int>(*number);
    if (std::find(command.pids.begin(), command.pids.end(), process) == command.pids.end()) {
      command.pids.push_back(process);
    }
  }
  command.json = reading.IsOn("json");
  command.full = reading.IsOn("full");
  if (const GivenFlag* const given = reading.Find("timeout"); given != nullptr) {
    const auto timeout = ParseDuration(given->value);
    if (timeout.has_value() && timeout->count() > 0) {
      command.timeout = *timeout;
    } else {
      errors.push_back(absl::StrCat(given->origin.place,
                                    ": expected a duration above 0, such as 10s (found ",
                                    Quoted(given->value), ")"));
    }
  }
  if (!errors.empty()) return UsageError(errors);
  return command;
}

}  // namespace ddprun
