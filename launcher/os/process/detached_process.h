// A process that is independent of the agent once it is started: it leads its own session, gets no
// signal of a terminal or of the agent's group, and survives the agent. It inherits the environment
// and no descriptor.
//
// The loop's thread only. Another thread starts the process, because exec waits for the program's
// files, whose disk may hang.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"

namespace ddprun {

class DetachedProcess {
 public:
  // `loop` must outlive this object.
  explicit DetachedProcess(EventLoop* loop) : starter_(loop, "ddprun-starter") {}
  // Does not end the process.
  ~DetachedProcess();
  DetachedProcess(const DetachedProcess&) = delete;
  DetachedProcess& operator=(const DetachedProcess&) = delete;

  // Starts this program again with `arguments`, even if its file was replaced or removed. stdin is
  // /dev/null; stdout and stderr are appended to `log_file`. Call it only if running() is false. On
  // failure calls `failed` with an error that names the program.
  void StartSelf(const std::vector<std::string>& arguments, const std::string& log_file,
                 std::function<void(const absl::Status&)> failed);

  // True: the newest process runs or is about to start. Reaps it if it has ended.
  bool running();

 private:
  bool starting_ = false;
  pid_t pid_ = -1;  // −1: none, or reaped
  OffLoop starter_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_
