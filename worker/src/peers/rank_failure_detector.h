// Finds out which rank failed, and why, when a collective fails: collectives themselves do not
// tell. The ranks have connections of their own for it.
//
// Rank 0 listens; every other rank keeps one connection to it, on which nothing is said while all
// is well. A rank whose collective failed asks; rank 0 asks everyone what they are doing, sees
// whose connection has ended, and tells all ranks the same answer. Best effort: a job whose ranks
// cannot connect here trains all the same, and its errors name fewer causes.
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
// With a secret, both show that they know it, each in answer to a random number of the other: the
// token is rank 0's. A rank says HELLO once; another one for the same rank is turned away.
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

// How long rank 0 waits for answers; a rank that has none by then is called silent.
inline constexpr std::chrono::milliseconds kPeerPatience(1000);

// Who connects to rank 0 and has not said by then which rank it is, is cut off: its place is for a
// rank.
inline constexpr std::chrono::milliseconds kHelloPatience(5000);

// One rank's end of it. Ask(), KnownCause() and ReportError() from any thread; the rest from its
// owner's.
class RankFailureDetector {
 public:
  using Where = std::function<Activity()>;  // called on a thread of this class

  // Rank 0's: listens at every address of this host, any port. `secret`: of all ranks; empty: who
  // knows the token is believed. Throws std::system_error.
  RankFailureDetector(int world_size, Where where, std::string secret = "");
  // The others': connects to rank 0 at `host`; `contact` is what rank 0's contact() says. Throws
  // std::runtime_error where that fails, or takes more than a few seconds.
  RankFailureDetector(const std::string& host, const std::string& contact, int rank, int world_size,
                      Where where, std::string secret = "");
  // Says BYE; waits for nobody.
  ~RankFailureDetector();
  RankFailureDetector(const RankFailureDetector&) = delete;
  RankFailureDetector& operator=(const RankFailureDetector&) = delete;

  const std::string& contact() const { return contact_; }  // "<port> <token>"

  // What is known about why a collective failed, as one or more sentences; empty if nothing is.
  // Takes little more than kPeerPatience at most, and far less when every rank answers or has
  // ended.
  std::string Ask();

  // What is known without asking: what another rank found out, or the end of rank 0.
  std::string KnownCause();

  // Tells the others why this process is about to end.
  void ReportError(const std::string& text);

  // For ranks that wait for what does not fail by itself when another one is lost: a collective of
  // NCCL, a neighbour's memory in a restore. All of them call this once they are connected: from
  // then on each is told at once, though nobody asks, when a rank fails or ends without BYE (a
  // crash, but also exit() past its Context). Then `on_loss` is called, once, on a thread of this
  // class or here and now; it must not wait. Null: KnownCause() is enough, and what was to be
  // called before still is. A host that is gone without a word is noticed after some 10 s.
  void WatchForLoss(std::function<void()> on_loss);

 private:
  struct Line;  // a connection and its unfinished line

  // The hub has asked all ranks what they are doing.
  struct Inquiry {
    int asking_rank = 0;
    std::chrono::steady_clock::time_point deadline;
  };

  // From the owner to the thread, which takes them all at once. All but `stop` are the hub's.
  struct Requests {
    bool stop = false;
    bool ask = false;
    std::optional<std::string> error;
  };

  struct LossWatch {
    bool on = false;
    bool lost = false;              // a rank; noticed by the hub only if it watches
    std::function<void()> on_loss;  // null: called, or there is none
  };

  void Start();
  void Wake();
  void Run();
  // When there is something to do though nobody says anything; max(): never.
  std::chrono::steady_clock::time_point NextDeadline() const;
  void CutOffStrangers();
  bool ServeRequests();
  void Accept();
  void Receive(Line* line);
  void HandleLine(Line* from, const std::string& text);
  void HandleHello(Line* from, const std::string& text);
  // The rest of HELLO and of WELCOME; empty where there is no secret.
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
  ddprun::UniqueFd listener_;  // the hub's
  ddprun::UniqueFd wake_;      // an eventfd

  // The thread's alone.
  std::vector<std::unique_ptr<Line>> lines_;  // of the hub: to the ranks; else one: to the hub
  std::vector<PeerReport> reports_;           // the hub's, by rank
  std::set<int> greeted_;                     // the hub's: ranks that have said HELLO
  std::optional<Inquiry> inquiry_;            // the hub's, while answers are awaited
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

// The process's own, for errors that come up far from its Context; null where there is none.
std::shared_ptr<RankFailureDetector> ProcessFailureDetector();
void SetProcessFailureDetector(std::shared_ptr<RankFailureDetector> detector);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_RANK_FAILURE_DETECTOR_H_
