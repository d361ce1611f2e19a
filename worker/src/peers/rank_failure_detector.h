// Finds out which rank failed, and why, when a collective fails. A failed collective does not name
// the rank. Therefore the ranks have extra connections.
//
// Rank 0 listens, and every other rank keeps one connection to it. While nothing fails, no message
// is sent. A rank whose collective failed asks rank 0. Rank 0 then asks every rank what it is
// doing, checks which connections have ended, and sends all ranks the same answer. This is best
// effort: if ranks cannot connect here, the job still trains, and its errors name fewer causes.
//
//   rank → 0   HELLO <token> <rank>      first line; with a secret + " <number> <proof>"
//              ASK                       a collective failed here
//              AT <ms> <activity>        the answer to WHERE
//              ERROR <text>              about to end with this error
//              BYE                       about to leave without a failure
//   0 → rank   WELCOME                   answer to HELLO; with a secret + " <proof>"
//              WHERE                     what are you doing?
//              CAUSE <text>              what is known; a rank takes only the first CAUSE
//              BYE                       rank 0 is about to leave without a failure
//              LOST                      a rank has failed, or ended without BYE: WatchForLoss()
//
// With a secret, both ends prove that they know it: each gets a random number from the other end,
// and sends back a proof made from this number and the secret. Rank 0's number is the token. A rank
// sends HELLO once. With a secret, rank 0 refuses a second HELLO for the same rank.
//
// Lines end in \n and have at most kMaxPeerLine bytes. Longer text is cut.
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

// How long rank 0 waits for answers. A rank that has not answered by then is reported as silent.
inline constexpr std::chrono::milliseconds kPeerPatience(1000);

// Rank 0 closes a connection that has sent no HELLO after this time, because the number of such
// connections is limited.
inline constexpr std::chrono::milliseconds kHelloPatience(5000);

// One rank's part. Any thread may call Ask(), KnownCause() and ReportError(). Only the owner's
// thread may call the other functions.
class RankFailureDetector {
 public:
  using Where = std::function<Activity()>;  // called on a thread of this class

  // For rank 0: listens at every address of this host, on a free port. `secret` is the common
  // secret of all ranks. Empty: the token is enough. Throws std::system_error.
  RankFailureDetector(int world_size, Where where, std::string secret = "");
  // For other ranks: connects to rank 0 at `host`; `contact` is contact() of rank 0. Throws
  // std::runtime_error if that fails or takes more than a few seconds.
  RankFailureDetector(const std::string& host, const std::string& contact, int rank, int world_size,
                      Where where, std::string secret = "");
  // Sends BYE; does not wait for other ranks.
  ~RankFailureDetector();
  RankFailureDetector(const RankFailureDetector&) = delete;
  RankFailureDetector& operator=(const RankFailureDetector&) = delete;

  const std::string& contact() const { return contact_; }  // "<port> <token>"

  // Why a collective failed, as far as known: one or more sentences, or empty. Takes at most 0.5 s
  // more than kPeerPatience, and far less if every rank answers or has ended.
  std::string Ask();

  // The cause that this rank already knows: a message of rank 0, or the end of rank 0. Asks nobody.
  std::string KnownCause();

  // Tells rank 0 why this process is about to end. Rank 0 tells the other ranks when one of them
  // asks, or without being asked after WatchForLoss(). On rank 0 itself: tells all ranks at once,
  // and waits for at most 0.5 s.
  void ReportError(const std::string& text);

  // For waits that do not fail by themselves when another rank is lost. There are two. One is an
  // NCCL collective. The other is the wait, in a restore, for data that another rank of this host
  // puts into shared memory. All ranks call this after they are connected, perhaps several times.
  // From then on rank 0 tells each rank at once when a rank fails or ends without BYE (a crash, or
  // exit() before the Context is destroyed). Then `on_loss` is called once, on a thread of this
  // class or within this call; it must not wait. If `on_loss` is null, the caller only reads
  // KnownCause(); a function from an earlier call is kept. If a host disappears silently, rank 0
  // notices after about 11 s.
  void WatchForLoss(std::function<void()> on_loss);

 private:
  struct Line;  // a connection and its unfinished input

  // Rank 0, the hub, has asked all ranks what they are doing.
  struct Inquiry {
    int asking_rank = 0;
    std::chrono::steady_clock::time_point deadline;
  };

  // From the callers to the thread, which takes all requests at once. Every rank uses `stop`; only
  // the hub uses the others.
  struct Requests {
    bool stop = false;
    bool ask = false;
    std::optional<std::string> error;
  };

  struct LossWatch {
    bool on = false;
    bool lost = false;              // a rank is lost; the hub looks for that only if `on`
    std::function<void()> on_loss;  // null: already called, or not given
  };

  void Start();
  void Wake();
  void Run();
  // The next time when there is work even without input. max(): never.
  std::chrono::steady_clock::time_point NextDeadline() const;
  void CutOffStrangers();
  bool ServeRequests();
  void Accept();
  void Receive(Line* line);
  void HandleLine(Line* from, const std::string& text);
  void HandleHello(Line* from, const std::string& text);
  // The proofs in HELLO and WELCOME. Empty without a secret.
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
  ddprun::UniqueFd listener_;  // only on the hub
  ddprun::UniqueFd wake_;      // an eventfd

  // Used by the thread only.
  std::vector<std::unique_ptr<Line>> lines_;  // hub: all connections; else: one to the hub
  std::vector<PeerReport> reports_;           // only on the hub; by rank
  std::set<int> greeted_;                     // only on the hub: the ranks that have sent HELLO
  std::optional<Inquiry> inquiry_;            // only on the hub: set while it waits for answers
  bool hub_left_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  int hub_socket_ = -1;  // of lines_[0]; -1 on the hub
  Requests requests_;
  std::optional<std::string> cause_;
  LossWatch loss_;

  std::thread thread_;  // last, because it uses all members above
};

// The detector of this process, for errors that occur far from its Context. Null: none.
std::shared_ptr<RankFailureDetector> ProcessFailureDetector();
void SetProcessFailureDetector(std::shared_ptr<RankFailureDetector> detector);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_RANK_FAILURE_DETECTOR_H_
