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
     "the rendezvous says no: there is no such job or node, or the job has ended; or a part of the "
     "answer is missing"},
    {"1", "doctor", "a job would fail here: a line of the output says why"},
    {"1", "init certs python-module", "a file exists already, or cannot be written"},
    {"64", "", "flags, variables or arguments are wrong"},
    {"65", "validate slurm kubernetes", "the job file is wrong"},
    {"65", "rendezvous", "the journal, or the jobs in etcd, are damaged"},
    {"69", "status stop drain events logs stacks page top",
     "the rendezvous cannot be reached, or the connection to it was lost"},
    {"69", "rendezvous",
     "the address is in use, or another rendezvous has the state folder or leads now"},
    {"69", "kubernetes",
     "a file cannot be read, or the kernel gave no random numbers for the token"},
    {"69", "slurm", "a file cannot be read or written, or sbatch cannot be started"},
    {"70", "rendezvous init", "something that ddprun needs has failed"},
    {"70", "status stop drain events logs stacks page top", "an internal error"},
    {"77", "status stop drain events logs stacks page top", "the credentials are refused"},
    {"77", "rendezvous", "etcd refuses the rendezvous"},
    {"sbatch's own", "slurm", "the exit code of sbatch, which replaces this process"},
};

}  // namespace ddprun::manual

#endif  // DDPRUN_LAUNCHER_MANUAL_COMMAND_EXIT_CODES_H_
