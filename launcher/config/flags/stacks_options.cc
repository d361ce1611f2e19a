// The command line of `ddprun stacks`.
#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/subcommands.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

constexpr absl::string_view kStacksUsage =
    "Prints where processes of this node are in their code: the stacks of all their threads, as "
    "one\n"
    "tree. Frames that several processes have in common stand once. Each process is held for a "
    "few\n"
    "milliseconds, and goes on as it was. docs/hangs.md shows how to read it.\n"
    "\n"
    "  ddprun stacks --pid PID [--pid PID]... [--json] [--full]\n"
    "\n"
    "Exit code 77 if ddprun may not look at one of them, 1 if one is missing for another reason.\n"
    "\n";

constexpr FlagSpec kStacksFlags[] = {
    {"pid", 'p', "PID", FlagEffect::kList, "", "", "a process; may be given several times"},
    {"json", 0, "", FlagEffect::kOption, "", "", "print JSON; docs/hangs.md has its fields"},
    {"full", 0, "", FlagEffect::kOption, "", "", "leave no frame of a long line out"},
    {"timeout", 0, "DURATION", FlagEffect::kOption, "", "",
     "then what is not done is left out (default 10s)"},
    {"help", 'h', "", FlagEffect::kImmediate, "", "", "print this text"},
    {"version", 0, "", FlagEffect::kImmediate, "", "", "print the version"},
};

}  // namespace

absl::Span<const FlagSpec> StacksFlags() { return kStacksFlags; }

HelpCommand StacksHelp() { return HelpFor(kStacksUsage, StacksFlags()); }

Command ParseStacks(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading = ReadFlags(StacksFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, StacksHelp)) return *std::move(end);
  std::vector<std::string> errors;
  StacksCommand command;
  if (!reading.rest.empty()) {
    errors.push_back(absl::StrCat("stacks: expected nothing but flags (found ",
                                  Quoted(absl::StrJoin(reading.rest, " ")),
                                  "); ddprun stacks --pid PID"));
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
  if (errors.empty() && command.pids.empty()) {
    errors.push_back("stacks: expected a process; ddprun stacks --pid PID");
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
