// What is known about each rank when a collective has failed, and whom that makes the cause. Pure.
#ifndef DDPRUN_WORKER_SRC_PEERS_PEER_REPORT_H_
#define DDPRUN_WORKER_SRC_PEERS_PEER_REPORT_H_

#include <chrono>
#include <string>
#include <vector>

namespace ddp::internal {

struct PeerReport {
  enum class State {
    kSilent,    // no answer
    kAnswered,  // `text` is what it does (Activity::what), for `age`
    kFailed,    // it ended with the error `text`
    kEnded,     // it ended without a word
    kLeft,      // it ended well
  };
  State state = State::kSilent;
  std::string text;
  std::chrono::milliseconds age{0};
};

// One or more sentences: the ranks that failed, ended, left or do not answer, and those that are
// elsewhere than `asking_rank`, whose collective failed; then how many are where that one is.
std::string NameTheCause(const std::vector<PeerReport>& ranks, int asking_rank);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_PEER_REPORT_H_
