// The subcommands' command lines, and functions that their files share.
// Internal to this folder; callers use cli.h.
#ifndef DDPRUN_LAUNCHER_CONFIG_FLAGS_SUBCOMMANDS_H_
#define DDPRUN_LAUNCHER_CONFIG_FLAGS_SUBCOMMANDS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/flags.h"
#include "launcher/config/host.h"

namespace ddprun {

// Each parses the arguments after the subcommand's name into a command that is ready to run, or an
// error.
Command ParseRendezvous(const std::vector<std::string>& arguments, const Host& host);
Command ParseValidate(const std::vector<std::string>& arguments, const Host& host);
Command ParseInit(const std::vector<std::string>& arguments, const Host& host);
Command ParseSlurm(const std::vector<std::string>& arguments, const Host& host);
Command ParseKubernetes(const std::vector<std::string>& arguments, const Host& host);
Command ParseDoctor(const std::vector<std::string>& arguments, const Host& host);
Command ParseCerts(const std::vector<std::string>& arguments, const Host& host);
Command ParsePythonModule(const std::vector<std::string>& arguments, const Host& host);
Command ParseStatus(const std::vector<std::string>& arguments, const Host& host);
Command ParseStop(const std::vector<std::string>& arguments, const Host& host);
Command ParseDrain(const std::vector<std::string>& arguments, const Host& host);
Command ParseEvents(const std::vector<std::string>& arguments, const Host& host);
Command ParseStacks(const std::vector<std::string>& arguments, const Host& host);
Command ParseLogs(const std::vector<std::string>& arguments, const Host& host);
Command ParsePage(const std::vector<std::string>& arguments, const Host& host);
Command ParseTop(const std::vector<std::string>& arguments, const Host& host);
Command ParseCompletion(const std::vector<std::string>& arguments, const Host& host);

// The output of `ddprun SUBCOMMAND --help`.
HelpCommand RendezvousHelp();
HelpCommand ValidateHelp();
HelpCommand InitHelp();
HelpCommand SlurmHelp();
HelpCommand KubernetesHelp();
HelpCommand DoctorHelp();
HelpCommand CertsHelp();
HelpCommand PythonModuleHelp();
HelpCommand StatusHelp();
HelpCommand StopHelp();
HelpCommand DrainHelp();
HelpCommand EventsHelp();
HelpCommand StacksHelp();
HelpCommand LogsHelp();
HelpCommand PageHelp();
HelpCommand TopHelp();
HelpCommand CompletionHelp();

// `ddprun stacks --pid`: needs no rendezvous.
Command StacksOfProcesses(const FlagReading& reading);

HelpCommand HelpFor(absl::string_view usage, absl::Span<const FlagSpec> flags);
CommandLineError UsageError(const std::vector<std::string>& errors);

// The result of --help, --version and invalid flags, for any subcommand.
std::optional<Command> EarlyEnd(const FlagReading& reading, HelpCommand (*help)());

// The flags about credentials, with absolute paths.
CredentialsConfig Credentials(const FlagReading& reading, const Host& host);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_FLAGS_SUBCOMMANDS_H_
