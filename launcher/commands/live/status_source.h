// Asks a rendezvous for its status again and again, on a thread of its own: soon after something
// has happened, else once a second. A rendezvous that goes away is asked until it is back.
#ifndef DDPRUN_LAUNCHER_COMMANDS_LIVE_STATUS_SOURCE_H_
#define DDPRUN_LAUNCHER_COMMANDS_LIVE_STATUS_SOURCE_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "launcher/commands/live/change_bell.h"
#include "rendezvous/client/operator_client.h"

namespace ddprun::top {

class StatusSource {
 public:
  // Called on the source's thread, with each status and each failure.
  using Handler = std::function<void(absl::StatusOr<std::string>)>;

  // `job` empty: of all jobs.
  StatusSource(OperatorClient::Options options, std::string job, Handler handler);
  // Waits for the answer that is under way, at most options.timeout.
  ~StatusSource();
  StatusSource(const StatusSource&) = delete;
  StatusSource& operator=(const StatusSource&) = delete;

 private:
  void Run();
  absl::Status Follow(OperatorClient& client);
  // False: this object is to end.
  bool Pause(ChangeBell::Clock::time_point until);
  void SetBell(ChangeBell* bell);
  bool stopping();

  const OperatorClient::Options options_;
  const std::string job_;
  const Handler handler_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  ChangeBell* bell_ = nullptr;  // the one that is waited for; the source's thread owns it
  std::thread thread_;
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_COMMANDS_LIVE_STATUS_SOURCE_H_
