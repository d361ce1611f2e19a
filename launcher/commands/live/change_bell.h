// ChangeBell: signals each change of the jobs of a rendezvous. Reads the stream of events on a
// thread of its own, and drops the events' content.
#ifndef DDPRUN_LAUNCHER_COMMANDS_LIVE_CHANGE_BELL_H_
#define DDPRUN_LAUNCHER_COMMANDS_LIVE_CHANGE_BELL_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "rendezvous/client/operator_client.h"

namespace ddprun {

class ChangeBell {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ChangeBell(std::unique_ptr<OperatorClient::Events> events);
  // Cancels the stream.
  ~ChangeBell();
  ChangeBell(const ChangeBell&) = delete;
  ChangeBell& operator=(const ChangeBell&) = delete;

  // kChange: an event came. kNothing: the deadline is over. kEnd: the stream has ended, and no
  // further event comes.
  enum class Heard { kChange, kNothing, kEnd };
  Heard WaitUntil(Clock::time_point deadline);

 private:
  const std::unique_ptr<OperatorClient::Events> events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rang_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_LIVE_CHANGE_BELL_H_
