// A process that has nothing to do with the agent any more once it is started: it leads a session
// of its own, no signal of a terminal or of the agent's group reaches it, and it lives on when the
// agent is killed. It inherits the environment, and of the descriptors none.
//
// The loop's thread only. Another one starts the process: whoever starts a program waits until its
// files have answered, which may be on a disk that hangs.
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
  // Leaves the process alone.
  ~DetachedProcess();
  DetachedProcess(const DetachedProcess&) = delete;
  DetachedProcess& operator=(const DetachedProcess&) = delete;

  // Starts this very program (also when its file was replaced or removed since) with `arguments`.
  // stdin is /dev/null; stdout and stderr are added to `log_file`. Only when running() is false.
  // Where that fails `failed` is called, with an error that names what could not be started.
  void StartSelf(const std::vector<std::string>& arguments, const std::string& log_file,
                 std::function<void(const absl::Status&)> failed);

  // Whether the one that was started last is there, or about to be; collects it when it has ended.
  bool running();

 private:
  bool starting_ = false;
  pid_t pid_ = -1;  // −1: none, or it has been collected
  OffLoop starter_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_
