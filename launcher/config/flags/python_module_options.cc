// The command line of `ddprun python-module`.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config/flags/subcommands.h"

namespace ddprun {
namespace {

constexpr absl::string_view kPythonModuleUsage =
    "Writes the Python module `ddprun` to DIR/ddprun.py, with the folder _ddprun_state beside it, "
    "and\n"
    "prints the path. Scripts that ddprun starts have the module already. Write the module for a "
    "script\n"
    "that a wrapper starts, or that also runs without ddprun. docs/python.md.\n"
    "\n"
    "An existing file is replaced only if ddprun of this or an older version wrote it, and nobody "
    "has\n"
    "edited it.\n"
    "\n"
    "  ddprun python-module DIR\n"
    "\n";

}  // namespace

HelpCommand PythonModuleHelp() { return HelpFor(kPythonModuleUsage, PythonModuleFlags()); }

Command ParsePythonModule(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading =
      ReadFlags(PythonModuleFlags(), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, PythonModuleHelp)) return *std::move(end);
  if (reading.rest.size() != 1 || reading.rest.front().empty()) {
    return UsageError({absl::StrCat("python-module: expected one folder (found ",
                                    reading.rest.size(), "); ddprun python-module DIR")});
  }
  const std::filesystem::path folder =
      std::filesystem::path(host.CurrentDirectory()) / reading.rest.front();
  return PythonModuleCommand{folder.lexically_normal()};
}

}  // namespace ddprun
