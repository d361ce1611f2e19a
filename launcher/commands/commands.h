// The subcommands: one function each, from a parsed command line to an exit code.
//
// Called once, from main, on the main thread.
#ifndef DDPRUN_LAUNCHER_COMMANDS_COMMANDS_H_
#define DDPRUN_LAUNCHER_COMMANDS_COMMANDS_H_

#include "launcher/config/flags/cli.h"
#include "launcher/config/host.h"

namespace ddprun {

// ddprun [OPTIONS] COMMAND: runs this node's part of a job.
int RunJob(const RunCommand& command);

// ddprun without arguments: shows the job files of this folder and how to run them.
int ShowGuide(const Host& host);

// ddprun rendezvous: serves until a signal, until --until-idle ends it, or until another rendezvous
// has taken over its jobs.
int ServeRendezvous(const RendezvousCommand& command);

// ddprun validate FILE: prints the resolved job.
int ValidateJob(const ValidateCommand& command, const Host& host);

// ddprun init: writes a job file. Without COMMAND it asks for what the flags do not give.
int WriteJobFile(const InitCommand& command, const Host& host);

// ddprun status, stop, drain, events, stacks JOB, logs, page, top: asks a running rendezvous.
int Operate(const OperatorCommand& command);

// ddprun slurm FILE: replaces this process by sbatch, unless there is an error or --dry-run.
int SubmitToSlurm(const SlurmCommand& command, const Host& host);

// ddprun kubernetes FILE: prints the manifest.
int PrintManifest(const KubernetesCommand& command, const Host& host);

// ddprun doctor: prints its findings.
int CheckNode(const DoctorCommand& command, const Host& host);

// ddprun stacks --pid: prints the stacks of processes of this node.
int ShowStacks(const StacksCommand& command);

// ddprun certs DIR: writes the files and prints their names.
int MakeCerts(const CertsCommand& command);

// ddprun python-module DIR: writes the file and prints its path.
int WritePythonModule(const PythonModuleCommand& command);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_COMMANDS_H_
