// The tables of flags, and how flags and variables of the environment are read. A new flag is one
// row in flags.cc. CLI11 stops in flag_reader.cc.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_FLAGS_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_FLAGS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launcher/config/host.h"
#include "launcher/config/job_draft.h"

namespace ddprun {

enum class FlagEffect {
  kSetsKey,      // its value, or `fixed` for a switch, becomes the value of a key of the job
  kMaySetKey,    // as kSetsKey, and its value may be left out (--name, --name=VALUE): then it is
                 // `fixed`
  kSetsSeconds,  // the same for a duration; a bare number is seconds, as torchrun has it
  kOption,       // read under its name by the subcommand
  kList,         // the same, and may be given several times
  kImmediate,    // --help and --version: not read from the environment
  kRefused,      // torchrun's or planned, and not there yet; `help` says why, or what instead
};

struct FlagSpec {
  absl::string_view name;   // with dashes; underscores are taken as well
  char letter;              // the short form, or 0
  absl::string_view value;  // how help calls its value; empty: a switch
  FlagEffect effect;
  absl::string_view key;    // kSetsKey, kSetsSeconds: the path of the key
  absl::string_view fixed;  // kSetsKey, a switch, and kMaySetKey: the value
  // "{}" in it stands for the default of the key, "{port}" and the like for constants: HelpOf().
  absl::string_view help;
  absl::string_view group = "";  // the heading that it stands under in --help

  // May stand without a value.
  bool IsSwitch() const { return value.empty() || effect == FlagEffect::kMaySetKey; }
};

absl::Span<const FlagSpec> RunFlags();
absl::Span<const FlagSpec> RendezvousFlags();
absl::Span<const FlagSpec> DoctorFlags();
absl::Span<const FlagSpec> ValidateFlags();
absl::Span<const FlagSpec> InitFlags();
absl::Span<const FlagSpec> CertsFlags();
absl::Span<const FlagSpec> PythonModuleFlags();
absl::Span<const FlagSpec> SlurmFlags();
absl::Span<const FlagSpec> KubernetesFlags();

// What --help says of the flag: its `help`, with the defaults.
std::string HelpOf(const FlagSpec& flag);

// One line for each flag, the groups under their headings, and the refused ones by name at the end.
std::string DescribeFlags(absl::Span<const FlagSpec> flags);

// A setting that was given.
struct GivenFlag {
  const FlagSpec* spec;  // a row of the table, which lives for ever
  std::string value;     // of a switch: what ParseSwitch() takes
  Origin origin;
};

struct FlagReading {
  std::vector<GivenFlag> given;     // the environment's before the command line's
  std::vector<std::string> rest;    // what follows the options
  std::vector<std::string> errors;  // "--name: what was expected"; empty when all is well
  bool immediate_help = false;      // --help
  bool immediate_version = false;   // --version

  // nullptr when the flag was given nowhere.
  const GivenFlag* Find(absl::string_view name) const;
  std::vector<std::string> FindAll(absl::string_view name) const;  // the values, in order
  bool IsOn(absl::string_view name) const;  // a switch that was given and is on
};

enum class Positionals {
  kEndOptions,  // the first argument that is no option starts `rest`
  kAnywhere,    // options may follow
};

// Reads `arguments` and, for each flag that is not among them, the variables DDPRUN_<FLAG> and then
// PET_<FLAG> (upper case, underscores). An empty variable counts as not set.
FlagReading ReadFlags(absl::Span<const FlagSpec> flags, const std::vector<std::string>& arguments,
                      Positionals positionals, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_FLAGS_H_
