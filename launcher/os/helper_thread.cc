#include "launcher/os/helper_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace ddprun {

HelperThread::HelperThread(const char* name, std::function<void()> body) {
  std::promise<void> finished;
  finished_ = finished.get_future();
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);  // the new thread inherits it
  thread_ = std::thread([body = std::move(body), finished = std::move(finished)]() mutable {
    body();
    body = nullptr;  // what it owns goes before anybody is told that it has finished
    finished.set_value();
  });
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  pthread_setname_np(thread_.native_handle(), name);
}

bool HelperThread::JoinWithin(std::chrono::milliseconds grace) {
  if (finished_.wait_for(grace) == std::future_status::ready) {
    thread_.join();
    return true;
  }
  thread_.detach();
  return false;
}

}  // namespace ddprun
