// The exit codes of ddprun, besides a worker's own code and 128 + signal. docs/exit-codes.md
// explains them; docs/jobs.md has the exit codes of operators' commands.
#ifndef DDPRUN_RENDEZVOUS_CORE_EXIT_CODES_H_
#define DDPRUN_RENDEZVOUS_CORE_EXIT_CODES_H_

namespace ddprun {

inline constexpr int kExitNo = 1;                // an operator's request was refused
inline constexpr int kExitUsage = 64;            // EX_USAGE: wrong flags, variables or subcommand
inline constexpr int kExitBadConfig = 65;        // EX_DATAERR: the job file is wrong
inline constexpr int kExitStateUnreadable = 66;  // EX_NOINPUT: a state exists and cannot be read
inline constexpr int kExitUnavailable = 69;      // EX_UNAVAILABLE: no rendezvous, or too few nodes
inline constexpr int kExitInternal = 70;   // EX_SOFTWARE: something that ddprun needs has failed
inline constexpr int kExitPreempted = 75;  // EX_TEMPFAIL: the job can continue from a checkpoint
inline constexpr int kExitRefused = 77;    // EX_NOPERM: the job refused this agent
inline constexpr int kExitCannotExecute = 126;  // as in a shell: the command cannot be executed
inline constexpr int kExitNotFound = 127;       // as in a shell: the command does not exist
inline constexpr int kExitTerminated = 143;     // like SIGTERM: stopped on purpose, not saved

// For users. scripts/reference_tables.py makes a table of docs/reference.md from these rows.
struct ExitCode {
  const char* code;      // text, because an entry may mean several codes
  const char* outcomes;  // kOutcomes that --report can have with it; "": there is no report
  const char* what;
};
inline constexpr ExitCode kExitCodes[] = {
    {"0", "succeeded", "every worker exited with 0"},
    {"1", "", "an operator's command (status, stop, ...): the rendezvous says no"},
    {"the worker's own, or 128 + signal", "failed",
     "the exit code or signal of the root cause, on every node"},
    {"126, 127", "failed", "126: the command cannot be executed; 127: it cannot be found"},
    {"128 + signal", "left",
     "ddprun got SIGINT, SIGQUIT or SIGHUP, or SIGTERM without any durable checkpoint (143)"},
    {"64", "failed", "flags or environment are wrong"},
    {"65", "", "the job file is wrong"},
    {"66", "state_unreadable", "a state of the training exists but cannot be read"},
    {"69", "unreachable, left, failed",
     "the rendezvous cannot be reached or was lost, or too few nodes joined in time (but see 75)"},
    {"70", "failed, left", "something that ddprun needs has failed, for example its log folder"},
    {"75", "preempted",
     "the job can continue from a checkpoint: it was preempted or stopped on purpose, or too few "
     "nodes joined in time under Slurm"},
    {"77", "refused, failed",
     "the job refused this agent, or another training uses its checkpoint folder"},
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_EXIT_CODES_H_
