// Makes the job of a run from its flags: the part of the command line about jobs. Internal to this
// folder; callers use cli.h.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_RUN_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_RUN_OPTIONS_H_

#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/flags.h"
#include "launcher/config/host.h"

namespace ddprun {

// `reading` must have no errors; its `rest` is the command. Returns a RunCommand or a
// CommandLineError.
Command MakeRunCommand(const FlagReading& reading, const Host& host);

// −1, 0 or 1 from -q and -v. 0 if both are given; the caller must refuse that.
int Verbosity(const FlagReading& reading);

// The error for -v together with -q, or "".
std::string VerbosityConflict(const FlagReading& reading);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_RUN_OPTIONS_H_
