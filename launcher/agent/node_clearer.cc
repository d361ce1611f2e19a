#include "launcher/agent/node_clearer.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/log.h"

namespace ddprun {
namespace {

// On the loop's thread.
constexpr std::chrono::milliseconds kWait{5};
constexpr std::chrono::milliseconds kAgain{20};
constexpr std::chrono::seconds kLimit{2};

}  // namespace

void NodeClearer::Clear(bool is_late, Done done) {
  done_ = std::move(done);
  const auto now = EventLoop::Clock::now();
  until_ = is_late ? now : now + kLimit;
  Try();
}

void NodeClearer::Try() {
  const auto left = runner_->EndOrphans(kWait);
  const auto now = EventLoop::Clock::now();
  if (left.ok() && !left->empty() && now < until_) {
    again_ = loop_->AddTimer(now + kAgain, [this] { Try(); });
    return;
  }
  if (left.ok() && !left->empty()) {
    LogWarning(
        absl::StrCat("what workers left behind did not end after SIGKILL; going on without "
                     "waiting for it: ",
                     absl::StrJoin(*left, ", ")));
  } else if (!left.ok() && !absl::IsUnavailable(left.status())) {
    LogWarning(absl::StrCat("cannot end what workers left behind: ", left.status().message()));
  }
  const Done done = std::exchange(done_, nullptr);
  done(absl::IsUnavailable(left.status()) ? left.status() : absl::OkStatus());
}

}  // namespace ddprun
