// Shared by `ddprun status`, `stop`, `drain`, `events`, `logs`, `page`, `stacks` and `top`: each
// asks a running rendezvous and returns an exit code. Main thread only.
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
// Makes a client for each of its threads.
int ShowTop(const OperatorCommand& command, OperatorClient::Options options);

// Delay between attempts to reach a rendezvous that went away.
inline constexpr std::chrono::milliseconds kRetryRendezvous{500};

// Prints the error, and returns the exit code for it.
int FailOperator(const OperatorCommand& command, const absl::Status& status);

// Prints the text without control characters except newlines and tabs, because agents and workers
// influence the text. False: the reader of stdout is gone.
bool PrintOut(const std::string& text);

// NotFound if `status`, the JSON of an answer, lacks the job that the command names.
absl::Status CheckThatJobExists(const OperatorCommand& command, const std::string& status);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_OPERATOR_H_
