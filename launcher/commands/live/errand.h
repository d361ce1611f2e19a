// An errand: a request that a key of `ddprun top` sends to the rendezvous.
#ifndef DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRAND_H_
#define DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRAND_H_

#include <string>

#include "absl/status/statusor.h"
#include "launcher/text/top/look.h"
#include "rendezvous/client/operator_client.h"

namespace ddprun::top {

// True: the answer fills the screen (stacks, a log). False: an order; the answer is one line.
bool BringsText(const Request& request);

// Blocks until the answer comes or options.stop is requested: at most options.timeout. With several
// rendezvous it may also search for the leader, for a few seconds more.
absl::StatusOr<std::string> Ask(const OperatorClient::Options& options, const Request& request);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_COMMANDS_LIVE_ERRAND_H_
