// Finds out which rank failed, and why, when a collective fails. A failed collective does not name
// the rank, so the ranks have extra connections for it.
//
// Rank 0 listens, and every other rank keeps one connection to it. Without a failure nothing is
// sent. A rank whose collective failed asks rank 0. Rank 0 asks every rank what it is doing, sees
// which connections have ended, and sends all ranks the same answer. Best effort: if ranks cannot
// connect here, the job still trains, and its errors name fewer causes.
//
//   rank → 0   HELLO <token> <rank>      first line; with a secret + " <number> <proof>"
//              ASK                       a collective failed here
//              AT <ms> <activity>        the answer to WHERE
//              ERROR <text>              about to end with this error
//              BYE                       about to end well
//   0 → rank   WELCOME                   answer to HELLO; with a secret + " <proof>"
//              WHERE                     what are you doing?
//              CAUSE <text>              what is known; the last word
//              LOST                      a rank has failed, or ended without BYE: WatchForLoss()
//
// With a secret, both ends prove that they know it: each answers a random number of the other. Rank
// 0's number is the token. A rank sends HELLO once; a second HELLO for the same rank is refused.
//
// Lines end in \n and are at most kMaxPeerLine bytes long; longer text is cut.
#ifndef DDPRUN_WORKER_SRC_PEERS_RANK_FAILURE_DETECTOR_H_
#define DDPRUN_WORKER_SRC_PEERS_RANK_FAILURE_DETECTOR_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "worker/contract/unique_fd.h"
#include "worker/src/peers/activity.h"
#include "worker/src/peers/peer_report.h"

namespace ddp::internal {

inline constexpr std::size_t kMaxPeerLine = 2000;

// How long rank 0 waits for answers. A rank without an answer by then is reported as silent.
inline constexpr std::chrono::milliseconds kPeerPatience(1000);

// Rank 0 closes a connection without a HELLO after this time, because the number of such
// connections is limited.
inline constexpr std::chrono::milliseconds kHelloPatience(5000);

// One rank's part. Any thread may call Ask(), KnownCause() and ReportError(); only the owner's
// thread calls the rest.
class RankFailureDetector {
 public:
  using Where = std::function<Activity()>;  // called on a thread of this class

  // Rank 0: listens at every address of this host, on any port. `secret`: the common secret of all
  // ranks; empty: the token is enough. Throws std::system_error.
  RankFailureDetector(int world_size, Where where, std::string secret = "");
  // Other ranks: connects to rank 0 at `host`; `contact` is contact() of rank 0. Throws
  // std::runtime_error if that fails or takes more than a few seconds.
  RankFailureDetector(const std::string& host, const std::string& contact, int rank, int world_size,
                      Where where, std::string secret = "");
  // Sends BYE; does not wait.
  ~RankFailureDetector();
  RankFailureDetector(const RankFailureDetector&) = delete;
  RankFailureDetector& operator=(const RankFailureDetector&) = delete;

  const std::string& contact() const { return contact_; }  // "<port> <token>"

  // Why a collective failed, as far as known: one or more sentences, or empty. Takes at most little
  // more than kPeerPatience, and far less if every rank answers or has ended.
  std::string Ask();

  // The cause that is known already: an earlier conclusion, or the end of rank 0. Asks nobody.
  std::string KnownCause();

  // Sends the other ranks the reason for which this process is about to end.
  void ReportError(const std::string& text);

  // For waits that do not fail by themselves when another rank is lost: an NCCL collective, or a
  // neighbour's memory in a restore. All ranks call this once they are connected. From then on each
  // rank is told at once, without asking, when a rank fails or ends without BYE: a crash, or exit()
  // past its Context. Then `on_loss` is called once, on a thread of this class or within this call;
  // it must not wait. Null: KnownCause() is enough, and an earlier `on_loss` stays. A host that
  // disappears silently is noticed after about 10 s.
  void WatchForLoss(std::function<void()> on_loss);

 private:
  struct Line;  // a connection and its unfinished input

  // The hub (rank 0) has asked all ranks what they are doing.
  struct Inquiry {
    int asking_rank = 0;
    std::chrono::steady_clock::time_point deadline;
  };

  // From the owner to the thread, which takes all of them at once. `stop` is for every rank, the
  // others are for the hub.
  struct Requests {
    bool stop = false;
    bool ask = false;
    std::optional<std::string> error;
  };

  struct LossWatch {
    bool on = false;
    bool lost = false;              // a rank is lost; the hub notices that only if `on`
    std::function<void()> on_loss;  // null: was called, or not given
  };

  void Start();
  void Wake();
  void Run();
  // The next time at which work is due without any input; max(): never.
  std::chrono::steady_clock::time_point NextDeadline() const;
  void CutOffStrangers();
  bool ServeRequests();
  void Accept();
  void Receive(Line* line);
  void HandleLine(Line* from, const std::string& text);
  void HandleHello(Line* from, const std::string& text);
  // The proofs of HELLO and WELCOME; empty without a secret.
  std::string HelloProof(int rank, const std::string& number) const;
  std::string WelcomeProof(int rank, const std::string& number) const;
  void HandleEnd(Line* line);
  void BeginAsking(int asking_rank);
  void ConcludeIfDone();
  void LookForLoss();
  void NoticeLoss();
  void Conclude(const std::string& cause);
  void SendToHub(const std::string& text);
  void SendToAll(const std::string& text);

  bool IsHub() const { return rank_ == 0; }

  // Constant after construction.
  const int rank_;
  const int world_size_;
  const Where where_;
  const std::string secret_;
  std::string contact_;
  std::string token_;
  ddprun::UniqueFd listener_;  // hub only
  ddprun::UniqueFd wake_;      // an eventfd

  // Used by the thread only.
  std::vector<std::unique_ptr<Line>> lines_;  // hub: one to each rank; other rank: one to the hub
  std::vector<PeerReport> reports_;           // hub only; by rank
  std::set<int> greeted_;                     // hub only: ranks that have sent HELLO
  std::optional<Inquiry> inquiry_;            // hub only: set while answers are awaited
  bool hub_left_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  int hub_socket_ = -1;  // of lines_[0]; -1 on the hub
  Requests requests_;
  std::optional<std::string> cause_;
  LossWatch loss_;

  std::thread thread_;  // the last member: runs while all others live
};

// The detector of this process, for errors that arise far from its Context; null: none.
std::shared_ptr<RankFailureDetector> ProcessFailureDetector();
void SetProcessFailureDetector(std::shared_ptr<RankFailureDetector> detector);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_RANK_FAILURE_DETECTOR_H_
