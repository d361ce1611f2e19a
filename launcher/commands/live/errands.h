// Errands: the requests of `ddprun top` that wait for an answer, each on a thread of its own. A
// slow request delays neither the keys nor other requests.
//
// Owned by the loop's thread.
#ifndef DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRANDS_H_
#define DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRANDS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/commands/live/errand.h"
#include "launcher/os/event_loop.h"

namespace ddprun::top {

class Errands {
 public:
  // Called on the loop's thread.
  using Handler =
      std::function<void(const Request& request, const absl::StatusOr<std::string>& answer)>;

  // `loop` outlives this object. `options.stop` is not used.
  Errands(EventLoop* loop, OperatorClient::Options options, Handler handler);
  ~Errands() { End({}); }
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  // A request for a text replaces the pending request for a text, whose answer is dropped. Orders
  // are independent of each other.
  void Begin(const Request& request);

  // Cancels every request: requests for texts at once, orders after `patience`. Returns the orders
  // without an answer. The handler is not called again.
  std::vector<Request> End(std::chrono::milliseconds patience);

 private:
  struct Errand {
    Request request;
    std::stop_source stop;  // requested: the answer is dropped
    std::thread thread;
  };

  void CancelTexts();
  void Take(std::uint64_t number, const absl::StatusOr<std::string>& answer);

  EventLoop* const loop_;
  const OperatorClient::Options options_;
  const Handler handler_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Errand> pending_;  // by number
  std::mutex mutex_;
  std::condition_variable answered_;
  std::set<std::uint64_t> numbers_answered_;  // of pending_; guarded by mutex_
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRANDS_H_
