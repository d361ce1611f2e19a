// ddprun: starts a data-parallel training job on this node, and keeps it running.
#include <cstdio>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "launcher/commands/commands.h"
#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/completion.h"
#include "launcher/config/host.h"
#include "launcher/stacks/unwind_helper.h"
#include "worker/contract/overloaded.h"

int main(int argc, char** argv) {
  using namespace ddprun;
  if (const auto exit_code = stacks::RunIfUnwindHelper(argc, argv)) return *exit_code;
  // gRPC uses abseil's mutexes. Debian's build of abseil looks for deadlocks at each lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const PosixHost host;
  return std::visit(
      Overloaded{
          [](const RunCommand& command) { return RunJob(command); },
          [&](const GuideCommand&) { return ShowGuide(host); },
          [](const RendezvousCommand& command) { return ServeRendezvous(command); },
          [&](const ValidateCommand& command) { return ValidateJob(command, host); },
          [&](const InitCommand& command) { return WriteJobFile(command, host); },
          [](const CertsCommand& command) { return MakeCerts(command); },
          [](const PythonModuleCommand& command) { return WritePythonModule(command); },
          [](const OperatorCommand& command) { return Operate(command); },
          [](const StacksCommand& command) { return ShowStacks(command); },
          [&](const SlurmCommand& command) { return SubmitToSlurm(command, host); },
          [&](const KubernetesCommand& command) { return PrintManifest(command, host); },
          [&](const DoctorCommand& command) { return CheckNode(command, host); },
          [](const CompletionCommand& command) {
            std::fputs(CompletionScript(command.shell).c_str(), stdout);
            return 0;
          },
          [](const VersionCommand&) {
            std::puts("ddprun " DDPRUN_VERSION);
            return 0;
          },
          [](const HelpCommand& command) {
            std::fputs(command.text.c_str(), stdout);
            return 0;
          },
          [](const CommandLineError& error) {
            std::fprintf(stderr, "%s\n", error.message.c_str());
            return error.exit_code;
          },
      },
      ParseCommandLine(argc, argv, host));
}
