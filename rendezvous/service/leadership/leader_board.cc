#include "rendezvous/service/leadership/leader_board.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun {
namespace {

// A standby asks etcd once a second, a leader twice a second.
constexpr std::chrono::seconds kLately{3};

// Whether followers without an interval (agents, operators' commands) get this change. They need to
// know only whether this rendezvous leads. Three other changes are left out: which other rendezvous
// leads; that this rendezvous still reads the jobs; that it hands over. After a hand-over, the
// successor has a higher term; without a successor this process ends. Thousands of messages about
// these changes would delay the message that the followers need.
bool ConcernsAgents(const Leading& before, const Leading& after) {
  if (after.role == Leading::Role::kTakesUp || after.role == Leading::Role::kHandsOver) {
    return false;
  }
  return before.role != Leading::Role::kStandsBy || after.role != Leading::Role::kStandsBy;
}

absl::Status Ends() { return absl::UnavailableError("this rendezvous ends"); }

}  // namespace

LeaderBoard::LeaderBoard(const Validity* validity) : validity_(validity) {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "ddprun-follow");
}

void LeaderBoard::Set(Leading leading) {
  const std::lock_guard lock(mutex_);
  if (leading == leading_) return;
  if (leading.term != leading_.term && !leading.term.none()) ++changes_;
  ++version_;
  if (ConcernsAgents(leading_, leading)) agents_version_ = version_;
  leading_ = std::move(leading);
  wake_.notify_one();
}

Leading LeaderBoard::Get() const {
  const std::lock_guard lock(mutex_);
  return leading_;
}

void LeaderBoard::OnReached() {
  const std::lock_guard lock(mutex_);
  reached_at_ = BootTime();
}

void LeaderBoard::SetTrouble(std::string why) {
  const std::lock_guard lock(mutex_);
  trouble_ = std::move(why);
}

LeadershipStatus LeaderBoard::Describe() const {
  LeadershipStatus status;
  status.valid_for = std::max(validity_->until() - BootTime(), Duration(0));
  const std::lock_guard lock(mutex_);
  status.leads = leading_.role != Leading::Role::kStandsBy;
  status.term = leading_.term;
  status.leader = leading_.leader;
  status.changes = changes_;
  status.trouble = trouble_;
  status.reached = reached_at_ != TimePoint() && BootTime() - reached_at_ < kLately;
  return status;
}

void LeaderBoard::Add(std::shared_ptr<Follower> follower, Duration interval) {
  {
    const std::lock_guard lock(mutex_);
    if (!shutdown_) {
      const bool is_rendezvous = interval > Duration(0);
      entries_.insert(is_rendezvous ? entries_.begin() : entries_.end(),
                      Entry{std::move(follower), interval});
      wake_.notify_one();
      return;
    }
  }
  follower->End(Ends());
}

void LeaderBoard::Remove(const Follower* follower) {
  std::shared_ptr<Follower> removed;  // released after the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [follower](const Entry& entry) {
    return entry.follower.get() == follower;
  });
  if (found == entries_.end()) return;
  removed = std::move(found->follower);
  entries_.erase(found);
}

std::vector<std::shared_ptr<LeaderBoard::Follower>> LeaderBoard::TakeDue(Clock::time_point now,
                                                                         Clock::time_point* next) {
  std::vector<std::shared_ptr<Follower>> due;
  *next = Clock::time_point::max();
  for (Entry& entry : entries_) {
    const bool timed = entry.interval > Duration(0);
    if (entry.told < (timed ? version_ : agents_version_) || (timed && entry.due <= now)) {
      if (due.size() == kPortion) {
        *next = now;
        return due;
      }
      entry.told = version_;
      entry.due = now + entry.interval;
      due.push_back(entry.follower);
    }
    if (timed) *next = std::min(*next, entry.due);
  }
  return due;
}

void LeaderBoard::Run() {
  std::unique_lock lock(mutex_);
  while (!shutdown_) {
    Clock::time_point next;
    auto due = TakeDue(Clock::now(), &next);
    if (due.empty()) {
      if (next == Clock::time_point::max()) {
        wake_.wait(lock);
      } else {
        wake_.wait_until(lock, next);
      }
      continue;
    }
    const Leading leading = leading_;
    lock.unlock();
    for (const auto& follower : due) follower->Tell(leading);
    due.clear();  // may be the last owner of a follower that has ended meanwhile
    lock.lock();
  }
}

void LeaderBoard::Shutdown() {
  std::list<Entry> entries;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(shutdown_, true)) return;
    entries.swap(entries_);
    wake_.notify_one();
  }
  thread_.join();
  for (const Entry& entry : entries) entry.follower->End(Ends());
}

}  // namespace ddprun
