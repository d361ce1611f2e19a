// A process that is independent of the agent once it is started. It leads its own session, gets no
// signal that is sent to the terminal's or the agent's process group, and survives the agent. It
// inherits the environment, but no descriptor.
//
// The loop's thread only. Another thread starts the process, because exec reads the program's
// files, and their disk may not answer.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "rendezvous/core/exit_status.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class DetachedProcess {
 public:
  // `loop` must outlive this object.
  explicit DetachedProcess(EventLoop* loop) : loop_(loop), thread_(loop, "ddprun-starter") {}
  // Does not end the process. No callback runs afterwards.
  ~DetachedProcess();
  DetachedProcess(const DetachedProcess&) = delete;
  DetachedProcess& operator=(const DetachedProcess&) = delete;

  struct Ended {
    ExitStatus status;
    std::string last_line;  // the last line of the log file that is not empty; "": none
  };
  struct Callbacks {
    std::function<void(const absl::Status&)> failed;  // it did not start; names the program
    std::function<void(const Ended&)> ended;
  };

  // Starts ddprun itself with `arguments`, even if its file was replaced or removed. stdin is
  // /dev/null; stdout and stderr are appended to `log_file`. Call it only if running() is false.
  // The loop calls one of `callbacks`.
  void StartSelf(const std::vector<std::string>& arguments, const std::string& log_file,
                 Callbacks callbacks);

  // True: the newest process runs or is about to start. Reaps it if it has ended.
  bool running();

 private:
  void Watch(pid_t pid);

  EventLoop* const loop_;
  bool starting_ = false;
  pid_t pid_ = -1;  // −1: none, or reaped
  UniqueFd pidfd_;  // watched by the loop while the process is not reaped
  std::string log_file_;
  Callbacks callbacks_;
  OffLoop thread_;  // starts the process, and reads the log file
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_DETACHED_PROCESS_H_
