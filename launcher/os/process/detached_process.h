// A process that is independent of the agent once it is started. It leads its own session, gets no
// signal that is sent to the terminal's or the agent's process group, and survives the agent. It
// inherits the environment, but no descriptor.
//
// The loop's thread only. Another thread starts the process, because exec reads the program's
// files, and their disk may hang.
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

  // Starts ddprun itself with `arguments`, even if its file was replaced or removed. stdin is
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
