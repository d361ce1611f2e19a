// A process that has nothing to do with the agent any more once it is started: it leads a session
// of its own, no signal of a terminal or of the agent's group reaches it, and it lives on when the
// agent is killed. It inherits the environment, and of the descriptors none.
//
// Any thread, one at a time.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ddprun {

class DetachedProcess {
 public:
  DetachedProcess() = default;
  // Leaves the process alone.
  ~DetachedProcess();
  DetachedProcess(const DetachedProcess&) = delete;
  DetachedProcess& operator=(const DetachedProcess&) = delete;

  // Starts this very program (also when its file was replaced or removed since) with `arguments`.
  // stdin is /dev/null; stdout and stderr are added to `log_file`. Only when running() is false.
  // The error names what could not be started.
  absl::Status StartSelf(const std::vector<std::string>& arguments, const std::string& log_file);

  // Whether the one that was started last is still there; collects it when it is not.
  bool running();

 private:
  pid_t pid_ = -1;  // −1: none, or it has been collected
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_
