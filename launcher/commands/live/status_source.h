// StatusSource: polls the status of a rendezvous on a thread of its own: soon after each event,
// else once a second. If the rendezvous goes away, it retries until the rendezvous is back.
#ifndef DDPRUN_LAUNCHER_COMMANDS_LIVE_STATUS_SOURCE_H_
#define DDPRUN_LAUNCHER_COMMANDS_LIVE_STATUS_SOURCE_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "launcher/commands/live/change_bell.h"
#include "rendezvous/client/operator_client.h"

namespace ddprun::top {

class StatusSource {
 public:
  // Called on the source's thread, with each status and each error.
  using Handler = std::function<void(absl::StatusOr<std::string>)>;

  // `job` empty: of all jobs.
  StatusSource(OperatorClient::Options options, std::string job, Handler handler);
  // Cancels the pending request.
  ~StatusSource();
  StatusSource(const StatusSource&) = delete;
  StatusSource& operator=(const StatusSource&) = delete;

 private:
  void Run();
  absl::Status Follow(OperatorClient& client);
  // False: this object must end.
  bool Pause(ChangeBell::Clock::time_point until);

  std::stop_source stop_;
  const OperatorClient::Options options_;  // with the stop token of stop_
  const std::string job_;
  const Handler handler_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::thread thread_;
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_COMMANDS_LIVE_STATUS_SOURCE_H_
