// The flags of the operators' commands, from `ddprun status` to `ddprun top`. Internal to this
// folder.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_OPERATOR_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_OPERATOR_OPTIONS_H_

#include "absl/types/span.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/flags.h"

namespace ddprun {

absl::Span<const FlagSpec> OperatorFlags(OperatorCommand::Kind kind);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_OPERATOR_OPTIONS_H_
