// A thread for one activity that may block for ever (a write to a dead NFS server, a terminal that
// was stopped with Ctrl-S), and that must not keep the agent from ending.
//
// The body must own, or share the ownership of, everything that it touches: when it does not end in
// time it is left behind. All signals are blocked in it.
#ifndef DDPRUN_LAUNCHER_OS_HELPER_THREAD_H_
#define DDPRUN_LAUNCHER_OS_HELPER_THREAD_H_

#include <chrono>
#include <functional>
#include <future>
#include <thread>

namespace ddprun {

class HelperThread {
 public:
  // Starts at once. `name` is what `ps -L` shows, at most 15 characters.
  HelperThread(const char* name, std::function<void()> body);

  // JoinWithin must have been called.
  ~HelperThread() = default;

  // Waits for the body to return, for at most `grace`; after that the thread is left behind, to end
  // with the process. The caller has told the body to return. Returns whether it did.
  bool JoinWithin(std::chrono::milliseconds grace);

 private:
  std::future<void> finished_;
  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_HELPER_THREAD_H_
