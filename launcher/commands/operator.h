// What `ddprun status`, `stop`, `drain`, `events`, `logs`, `page`, `stacks` and `top` share: each
// asks a running rendezvous, and gives an exit code. On the main thread.
#ifndef DDPRUN_LAUNCHER_COMMANDS_OPERATOR_H_
#define DDPRUN_LAUNCHER_COMMANDS_OPERATOR_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "launcher/config/flags/cli.h"
#include "rendezvous/client/operator_client.h"

namespace ddprun {

int ShowStatus(const OperatorCommand& command, OperatorClient& client);
int StopJob(const OperatorCommand& command, OperatorClient& client);
int DrainNode(const OperatorCommand& command, OperatorClient& client);
int ShowEvents(const OperatorCommand& command, OperatorClient& client);
int ShowJobStacks(const OperatorCommand& command, OperatorClient& client);
int ShowLogs(const OperatorCommand& command, OperatorClient& client);
int ShowPage(const OperatorCommand& command, OperatorClient& client);
// Its threads have clients of their own.
int ShowTop(const OperatorCommand& command, OperatorClient::Options options);

// Between two tries to reach a rendezvous that went away.
inline constexpr std::chrono::milliseconds kRetryRendezvous{500};

// Prints the error, and returns the exit code for it.
int FailOperator(const OperatorCommand& command, const absl::Status& status);

// Without control characters but newlines and tabs: agents and workers have had a say in the text.
// False when nobody reads stdout any more.
bool PrintOut(const std::string& text);

// NotFound when `status`, an answer as JSON, does not have the job that the command names.
absl::Status CheckThatJobExists(const OperatorCommand& command, const std::string& status);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_OPERATOR_H_
