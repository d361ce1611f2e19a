// How a worker ended: with a code of its own, or by a signal.
//
// A value. It has the only table of signal names. Standard library only, so that every part of
// ddprun can use it.
#ifndef DDPRUN_RENDEZVOUS_CORE_EXIT_STATUS_H_
#define DDPRUN_RENDEZVOUS_CORE_EXIT_STATUS_H_

#include <csignal>
#include <string>

namespace ddprun {

// The name of a signal with its prefix ("SIGKILL"); "signal 40" for a signal without a name.
inline std::string SignalName(int signal) {
  struct Entry {
    int number;
    const char* name;
  };
  static constexpr Entry kNames[] = {
      {SIGHUP, "SIGHUP"},       {SIGINT, "SIGINT"},       {SIGQUIT, "SIGQUIT"},
      {SIGILL, "SIGILL"},       {SIGTRAP, "SIGTRAP"},     {SIGABRT, "SIGABRT"},
      {SIGBUS, "SIGBUS"},       {SIGFPE, "SIGFPE"},       {SIGKILL, "SIGKILL"},
      {SIGUSR1, "SIGUSR1"},     {SIGSEGV, "SIGSEGV"},     {SIGUSR2, "SIGUSR2"},
      {SIGPIPE, "SIGPIPE"},     {SIGALRM, "SIGALRM"},     {SIGTERM, "SIGTERM"},
      {SIGSTKFLT, "SIGSTKFLT"}, {SIGCHLD, "SIGCHLD"},     {SIGCONT, "SIGCONT"},
      {SIGSTOP, "SIGSTOP"},     {SIGTSTP, "SIGTSTP"},     {SIGTTIN, "SIGTTIN"},
      {SIGTTOU, "SIGTTOU"},     {SIGURG, "SIGURG"},       {SIGXCPU, "SIGXCPU"},
      {SIGXFSZ, "SIGXFSZ"},     {SIGVTALRM, "SIGVTALRM"}, {SIGPROF, "SIGPROF"},
      {SIGWINCH, "SIGWINCH"},   {SIGIO, "SIGIO"},         {SIGPWR, "SIGPWR"},
      {SIGSYS, "SIGSYS"},
  };
  for (const Entry& entry : kNames) {
    if (entry.number == signal) return entry.name;
  }
  return "signal " + std::to_string(signal);
}

struct ExitStatus {
  int code = 0;              // 0..kMaxExitCode; meaningless when `signal` is set
  int signal = 0;            // 0: no signal ended the worker
  bool core_dumped = false;  // true only with a signal

  bool ok() const { return code == 0 && signal == 0; }

  // What a shell shows in $?: the code, or 128 + the signal's number.
  int ShellCode() const { return signal != 0 ? 128 + signal : code; }

  // "exit code 3", "SIGKILL", "SIGSEGV (core dumped)".
  std::string Describe() const {
    if (signal == 0) return "exit code " + std::to_string(code);
    return SignalName(signal) + (core_dumped ? " (core dumped)" : "");
  }

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_EXIT_STATUS_H_
