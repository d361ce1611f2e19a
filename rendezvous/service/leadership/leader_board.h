// LeaderBoard: who leads, for all in this process who want to know it, and for those who follow.
//
// A follower hears at once, and when this rendezvous begins or ceases to lead. One that asks for an
// interval also hears at every other change, and at the interval. One thread tells them all, so
// that thousands of agents delay neither LeadershipLoop nor an agent's message. Followers with an
// interval are other rendezvous: they are told first.
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
    // The last call.
    virtual void End(const absl::Status& why) = 0;
  };

  // `validity` outlives this object.
  explicit LeaderBoard(const Validity* validity);
  ~LeaderBoard() { Shutdown(); }
  LeaderBoard(const LeaderBoard&) = delete;
  LeaderBoard& operator=(const LeaderBoard&) = delete;

  void Set(Leading leading);
  Leading Get() const;
  // etcd has answered just now.
  void OnReached();
  // Why etcd takes no change of the durable state; "": it takes them.
  void SetTrouble(std::string why);

  // For operators and metrics.
  LeadershipStatus Describe() const;

  // Tells it from now on, on the board's thread; `interval`: also so often; 0: only at a change
  // that concerns agents.
  void Add(std::shared_ptr<Follower> follower, Duration interval);
  // It may be called once more.
  void Remove(const Follower* follower);

  // Ends all followers, and those that are added later. Idempotent; not from a follower.
  void Shutdown();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::shared_ptr<Follower> follower;
    Duration interval;
    std::uint64_t told = 0;   // the version
    Clock::time_point due{};  // with an interval
  };
  static constexpr std::size_t kPortion = 64;

  void Run();
  // The next followers to be told, at most kPortion; what it is time for next. With mutex_ held.
  std::vector<std::shared_ptr<Follower>> TakeDue(Clock::time_point now, Clock::time_point* next);

  const Validity* const validity_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  Leading leading_;
  std::uint64_t version_ = 1;         // of leading_
  std::uint64_t agents_version_ = 1;  // of its newest change that concerns agents
  std::uint64_t changes_ = 0;         // of the leader
  TimePoint reached_at_;              // BootTime(), when etcd has answered last
  std::string trouble_;
  std::list<Entry> entries_;  // those with an interval first
  bool shutdown_ = false;

  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_LEADER_BOARD_H_
