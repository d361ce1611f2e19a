// The tables of flags, and the reader of flags and environment variables. A new flag is one row: in
// flags.cc, or in operator_options.cc for an operator's command. Only flag_reader.cc uses CLI11.
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
  kSetsKey,      // sets a key of the job: to the flag's value, or to `fixed` for a switch
  kMaySetKey,    // as kSetsKey, with an optional value (--name, --name=VALUE); default: `fixed`
  kSetsSeconds,  // kSetsKey for a duration; a bare number is seconds, as under torchrun
  kOption,       // read under its name by the subcommand
  kList,         // as kOption, and may be repeated
  kImmediate,    // --help and --version; not read from the environment
  kRefused,      // a flag of torchrun that is not supported; `help` says why or what to use
};

struct FlagSpec {
  absl::string_view name;   // with dashes; underscores are accepted, too
  char letter;              // the short form, or 0
  absl::string_view value;  // name of the value in --help; empty: the flag takes no value
  FlagEffect effect;
  absl::string_view key;  // kSetsKey, kMaySetKey, kSetsSeconds: the path of the key
  // The value of the key if the flag is given without one.
  absl::string_view fixed;
  // "{}" is replaced by the key's default, "{port}" and the like by constants: HelpOf().
  absl::string_view help;
  absl::string_view group = "";  // its heading in --help

  // True if the flag can be given without a value.
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

// The flag's text in --help: `help` with the values for "{}".
std::string HelpOf(const FlagSpec& flag);

// One line for each flag, with the groups' headings; refused flags by name at the end.
std::string DescribeFlags(absl::Span<const FlagSpec> flags);

// A setting from the command line or the environment.
struct GivenFlag {
  const FlagSpec* spec;  // a row of the table; never destroyed
  std::string value;     // of a flag that takes no value: one that ParseSwitch() accepts
  Origin origin;
};

struct FlagReading {
  std::vector<GivenFlag> given;     // the environment's before the command line's
  std::vector<std::string> rest;    // arguments after the options
  std::vector<std::string> errors;  // "--name: what was expected"; empty: none
  bool immediate_help = false;      // --help
  bool immediate_version = false;   // --version

  // nullptr: the flag was not given.
  const GivenFlag* Find(absl::string_view name) const;
  std::vector<std::string> FindAll(absl::string_view name) const;  // the values, in order
  bool IsOn(absl::string_view name) const;                         // a given switch that is on
};

enum class Positionals {
  kEndOptions,  // the first argument that is not an option starts `rest`
  kAnywhere,    // options may follow
};

// Reads `arguments` and, for each flag that is not among them, the variables DDPRUN_<FLAG> and then
// PET_<FLAG> (upper case, underscores). An empty variable counts as not set.
FlagReading ReadFlags(absl::Span<const FlagSpec> flags, const std::vector<std::string>& arguments,
                      Positionals positionals, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_FLAGS_H_
