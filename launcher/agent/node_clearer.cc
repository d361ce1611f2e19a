#include "launcher/agent/node_clearer.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/agent/process_facts.h"
#include "launcher/log.h"
#include "launcher/os/process/process_id.h"

namespace ddprun {
namespace {

// Each try blocks the loop's thread for at most kWait. kAgain is the pause between two tries.
constexpr std::chrono::milliseconds kWait{5};
constexpr std::chrono::milliseconds kAgain{20};
constexpr std::chrono::seconds kClearLimit{2};

bool HasEnded(const UniqueFd& pidfd) {
  pollfd ended{pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 1;
}

}  // namespace

NodeClearer::~NodeClearer() {
  loop_->CancelTimer(again_);
  Forget();
}

void NodeClearer::Forget() {
  for (const auto& [pid, stuck] : stuck_) loop_->Unwatch(stuck.pidfd.get());
  stuck_.clear();
}

void NodeClearer::Adopt(pid_t pid, UniqueFd pidfd, Rank rank, TimePoint killed_at) {
  Watch(pid, {std::move(pidfd), rank, killed_at, /*exiting=*/false});
}

void NodeClearer::AdoptExiting(pid_t pid, UniqueFd pidfd, Rank rank) {
  Watch(pid, {std::move(pidfd), rank, EventLoop::Clock::now(), /*exiting=*/true});
}

void NodeClearer::Watch(pid_t pid, Stuck stuck) {
  loop_->Watch(stuck.pidfd.get(), EPOLLIN, [this, pid](std::uint32_t) { OnEnded(pid); });
  stuck_.insert_or_assign(pid, std::move(stuck));
}

void NodeClearer::Clear(How how, Done done) {
  done_ = std::move(done);
  may_be_exiting_ = how.may_be_exiting;
  began_at_ = EventLoop::Clock::now();
  until_ = how.is_late ? began_at_ : began_at_ + kClearLimit;
  Try();
}

bool NodeClearer::Awaits(pid_t pid, const Stuck& stuck) const {
  if (!stuck.exiting || HasEnded(stuck.pidfd)) return false;
  // Its children are killed as orphans, but only once it is gone.
  return !may_be_exiting_ || HasChildren(pid);
}

bool NodeClearer::AwaitsExiting() const {
  return std::any_of(stuck_.begin(), stuck_.end(),
                     [this](const auto& each) { return Awaits(each.first, each.second); });
}

void NodeClearer::Try() {
  // Asks before EndOrphans(): the children of an exiting worker become orphans only when the worker
  // is gone.
  const bool awaits_exiting = AwaitsExiting();
  const auto left = runner_->EndOrphans(kWait);
  const auto now = EventLoop::Clock::now();
  if (left.ok() && (!left->empty() || awaits_exiting) && now < until_) {
    again_ = loop_->AddTimer(now + kAgain, [this] { Try(); });
    return;
  }
  const Done done = std::exchange(done_, nullptr);
  if (absl::IsUnavailable(left.status())) return done(left.status());
  if (left.ok()) {
    SetLeftBehind(*left);
  } else {
    LogWarning(absl::StrCat("cannot end what workers left behind: ", left.status().message()));
  }
  done(List());
}

void NodeClearer::SetLeftBehind(const std::vector<pid_t>& pids) {
  for (auto each = stuck_.begin(); each != stuck_.end();) {
    const bool stays =
        each->second.rank || std::find(pids.begin(), pids.end(), each->first) != pids.end();
    if (!stays) loop_->Unwatch(each->second.pidfd.get());
    each = stays ? std::next(each) : stuck_.erase(each);
  }
  for (const pid_t pid : pids) {
    if (stuck_.contains(pid)) continue;
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd.valid()) {
      Watch(pid, {std::move(pidfd), std::nullopt, began_at_, /*exiting=*/false});
    } else if (errno != ESRCH) {
      LogWarning(absl::StrCat("cannot watch process ", pid, ", which SIGKILL has not ended: ",
                              absl::ErrnoToStatus(errno, "pidfd_open").message()));
    }
  }
}

std::vector<StuckProcess> NodeClearer::List() const {
  const TimePoint now = EventLoop::Clock::now();
  std::vector<StuckProcess> list;
  for (const auto& [pid, stuck] : stuck_) {
    // A zombie that waits for its debugger holds nothing any more.
    if (HasEnded(stuck.pidfd)) continue;
    if (stuck.exiting && !Awaits(pid, stuck)) continue;
    const ProcessFacts facts = ReadStuckProcess(pid);
    list.push_back({stuck.rank, pid, facts.state, facts.waits_for, now - stuck.killed_at});
  }
  return list;
}

void NodeClearer::OnEnded(pid_t pid) {
  const auto found = stuck_.extract(pid);
  const Stuck& stuck = found.mapped();
  loop_->Unwatch(stuck.pidfd.get());
  if (stuck.rank) {
    // The zombie keeps the number of its group from being reused.
    runner_->SignalGroup(pid, SIGKILL).IgnoreError();
    const auto status = runner_->Reap(stuck.pidfd.get());
    if (absl::IsUnavailable(status.status())) return events_.lost(status.status());
  }
  events_.ended(pid);
  if (stuck.exiting && done_) {
    loop_->CancelTimer(again_);
    Try();
  }
}

}  // namespace ddprun
