// The exit codes of subcommands, for their manual pages. rendezvous/core/exit_codes.h has the exit
// codes of a job.
#ifndef DDPRUN_LAUNCHER_MANUAL_COMMAND_EXIT_CODES_H_
#define DDPRUN_LAUNCHER_MANUAL_COMMAND_EXIT_CODES_H_

namespace ddprun::manual {

struct CommandExitCode {
  const char* code;      // text, because it may be another program's
  const char* commands;  // names with spaces between; "": all
  const char* what;
};

// In the order of a page. A page has the rows of its command.
inline constexpr CommandExitCode kCommandExitCodes[] = {
    {"0", "", "done"},
    {"1", "status stop drain events logs stacks page top",
     "the rendezvous says no: no such job or node, or the job is over; or some of what was asked "
     "for is missing"},
    {"1", "doctor", "a job would fail here: a line of the output says why"},
    {"1", "init certs python-module", "a file is there already, or cannot be written"},
    {"64", "", "flags, variables or arguments are wrong"},
    {"65", "validate slurm kubernetes", "the job file is wrong"},
    {"65", "rendezvous", "its journal, or its jobs in etcd, are damaged"},
    {"69", "status stop drain events logs stacks page top",
     "the rendezvous cannot be reached, or went away"},
    {"69", "rendezvous",
     "the address cannot be used, the state folder cannot be used, or the right to lead was lost"},
    {"69", "kubernetes", "a file cannot be read, or there is no random number for the token"},
    {"69", "slurm", "a file cannot be read or written, or sbatch cannot be started"},
    {"70", "rendezvous init", "something that ddprun needs has failed"},
    {"77", "status stop drain events logs stacks page top", "the credentials are refused"},
    {"77", "rendezvous", "etcd refuses it"},
    {"sbatch's own", "slurm", "of sbatch, which takes the place of this process"},
};

}  // namespace ddprun::manual

#endif  // DDPRUN_LAUNCHER_MANUAL_COMMAND_EXIT_CODES_H_
