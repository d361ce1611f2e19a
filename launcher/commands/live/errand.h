// Errand: a request that a key of `ddprun top` sends to the rendezvous, on a thread of its own, so
// that the keys keep working.
#ifndef DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRAND_H_
#define DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRAND_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "launcher/text/top/look.h"
#include "rendezvous/client/operator_client.h"

namespace ddprun::top {

// True: the answer fills the screen (stacks, a log). False: it is one line.
bool BringsText(const Request& request);

class Errand {
 public:
  // `done` is called once, on the errand's thread.
  using Done = std::function<void(absl::StatusOr<std::string> answer)>;

  Errand(OperatorClient::Options options, Request request, Done done);
  // Waits for the answer: at most options.timeout, or twice that with a handshake.
  ~Errand() { thread_.join(); }
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

 private:
  std::thread thread_;
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRAND_H_
