// From the flags of a run to its job: the part of the command line that is about jobs.
// Internal to this folder; cli.h is the way in.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_RUN_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_RUN_OPTIONS_H_

#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/flags.h"
#include "launcher/config/host.h"

namespace ddprun {

// `reading` has no errors; what follows its options is the command. A RunCommand or a
// CommandLineError.
Command MakeRunCommand(const FlagReading& reading, const Host& host);

// -1, 0 or 1 from -q and -v; 0 when both are given, which is for the caller to refuse.
int Verbosity(const FlagReading& reading);

// The error for -v together with -q, or "".
std::string VerbosityConflict(const FlagReading& reading);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_RUN_OPTIONS_H_
