// LeaderBoard: knows which rendezvous leads, for the rest of this process and for the callers of
// the gRPC call Follow (rendezvous.proto).
//
// Followers with an interval are other rendezvous. They are served first. They get a message at
// once, at every change, and once in each interval.
//
// Followers without an interval are agents and operators' commands. They get a message at once, and
// at four changes: this rendezvous begins to serve; it may no longer acknowledge (no message if it
// hands over); it may acknowledge again; it leads under a later term.
//
// One thread sends all these messages, so thousands of followers delay neither LeadershipLoop nor
// the jobs' messages to agents.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_BOARD_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_BOARD_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/core/measures/leadership_status.h"
#include "rendezvous/core/types.h"
#include "rendezvous/service/leadership/leading.h"
#include "rendezvous/service/leadership/validity.h"

namespace ddprun {

class LeaderBoard {
 public:
  // One Follow call. Neither function may block or call back.
  class Follower {
   public:
    virtual ~Follower() = default;
    virtual void Tell(const Leading& leading) = 0;
    // No call follows this one.
    virtual void End(const absl::Status& why) = 0;
  };

  // `validity` outlives this object.
  explicit LeaderBoard(const Validity* validity);
  ~LeaderBoard() { Shutdown(); }
  LeaderBoard(const LeaderBoard&) = delete;
  LeaderBoard& operator=(const LeaderBoard&) = delete;

  void Set(Leading leading);
  Leading Get() const;
  // etcd has answered now.
  void OnReached();
  // Why etcd accepts no change of the job records; "": it accepts changes.
  void SetTrouble(std::string why);

  // For operators and metrics.
  LeadershipStatus Describe() const;

  // Calls `follower` from now on, on the board's thread, at each change and also once in each
  // `interval`. If `interval` is 0, only at changes that concern agents.
  void Add(std::shared_ptr<Follower> follower, Duration interval);
  // The board may call `follower` once more after this.
  void Remove(const Follower* follower);

  // Ends all followers, also those added later. Idempotent; not from a follower.
  void Shutdown();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::shared_ptr<Follower> follower;
    Duration interval;
    std::uint64_t told = 0;   // the version that it got last
    Clock::time_point due{};  // its next call, if it has an interval
  };
  static constexpr std::size_t kPortion = 64;

  void Run();
  // The next followers to call, at most kPortion, and the time of the next call. With mutex_ held.
  std::vector<std::shared_ptr<Follower>> TakeDue(Clock::time_point now, Clock::time_point* next);

  const Validity* const validity_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  Leading leading_;
  std::uint64_t version_ = 1;         // of leading_
  std::uint64_t agents_version_ = 1;  // of its newest change that concerns agents
  std::uint64_t changes_ = 0;         // of the term
  TimePoint reached_at_;              // BootTime(), when etcd has answered last
  std::string trouble_;
  std::list<Entry> entries_;  // those with an interval first
  bool shutdown_ = false;

  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_BOARD_H_
