// A running stack_probe or other program. The destructor ends it and waits for it.
#ifndef DDPRUN_TESTS_UNIT_STACKS_PROBE_H_
#define DDPRUN_TESTS_UNIT_STACKS_PROBE_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddprun::stacks_test {

class Probe {
 public:
  // Returns when the program has printed "ready". `before_exec` runs in the child.
  explicit Probe(std::vector<std::string> arguments, std::function<void()> before_exec = {});
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  pid_t pid() const { return pid_; }
  char State() const;  // of its main thread, from /proc
  void Signal(int signal) const;
  // The test fails if the state does not come within 10 s.
  void SignalAndWaitFor(int signal, char state) const;

 private:
  pid_t pid_ = 0;
  UniqueFd output_;
};

// Runs `become` and then `act` in a child process. `become` changes the user or the rights of the
// child. Returns the result of `act`, at most 64 KiB.
std::string InChild(const std::function<void()>& become, const std::function<std::string()>& act);

}  // namespace ddprun::stacks_test

#endif  // DDPRUN_TESTS_UNIT_STACKS_PROBE_H_
