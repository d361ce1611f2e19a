// The reports of all ranks after a collective failed, and the cause that follows from them. Pure
// functions.
#ifndef DDPRUN_WORKER_SRC_PEERS_PEER_REPORT_H_
#define DDPRUN_WORKER_SRC_PEERS_PEER_REPORT_H_

#include <chrono>
#include <string>
#include <vector>

namespace ddp::internal {

struct PeerReport {
  enum class State {
    kSilent,    // no answer
    kAnswered,  // `text`: what it has been doing (Activity::what), for `age`
    kFailed,    // it ended with the error `text`
    kEnded,     // its connection ended, without an error or BYE
    kLeft,      // it left without a failure (BYE)
  };
  State state = State::kSilent;
  std::string text;
  std::chrono::milliseconds age{0};
};

// Returns one or more sentences. First come the ranks that failed, ended, left or do not answer.
// Then come the ranks in another place than `asking_rank`. Last comes the number of ranks in the
// same place as `asking_rank`.
std::string NameTheCause(const std::vector<PeerReport>& ranks, int asking_rank);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_PEER_REPORT_H_
