// From the flags of `ddprun status`, `stop`, `drain` and `events` to what they ask for.
// Internal to this folder; cli.h is the way in.
#ifndef DDPRUN_LAUNCHER_CONFIG_OPERATOR_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONFIG_OPERATOR_OPTIONS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launcher/config/cli.h"
#include "launcher/config/flags.h"

namespace ddprun {

absl::string_view OperatorUsage(OperatorCommand::Kind kind);
absl::Span<const FlagSpec> OperatorFlags(OperatorCommand::Kind kind);

// `reading` has no errors. An OperatorCommand or a CommandLineError.
Command MakeOperatorCommand(OperatorCommand::Kind kind, const FlagReading& reading,
                            CredentialsConfig credentials);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_OPERATOR_OPTIONS_H_
