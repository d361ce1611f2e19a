#include "rendezvous/auth/tls/watch.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun::auth {
namespace {

constexpr std::chrono::seconds kPatience{1};

}  // namespace

struct TlsWatch::State {
  const std::shared_ptr<TlsIdentity> identity;
  const Log log;
  const std::chrono::milliseconds interval;
  std::mutex mutex{};  // guards the members below; held while `log` is called
  std::condition_variable changed{};
  bool stop = false;
  bool ended = false;     // the thread has ended
  std::string trouble{};  // error of the last look, or ""
  bool told = false;      // `log` was told of `trouble`

  void Run() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, interval, [this] { return stop; })) {
      lock.unlock();
      const auto taken_up = identity->Refresh(std::chrono::system_clock::now());
      lock.lock();
      if (!stop) LogOutcome(taken_up);
    }
    ended = true;
    changed.notify_all();
  }

  void LogOutcome(const absl::StatusOr<bool>& taken_up) {
    if (taken_up.ok()) {
      trouble.clear();
      if (!*taken_up) return;
      const std::string until = identity->current()->until;
      log(true,
          absl::StrCat("the TLS files have changed: new connections use them",
                       until.empty() ? "" : absl::StrCat("; the certificate expires on ", until)));
      return;
    }
    // Files that are replaced one after the other do not match for a moment. So an error is logged
    // only when two looks in a row find it.
    const std::string why(taken_up.status().message());
    told = told && why == trouble;
    if (why == trouble && !told) {
      told = true;
      log(false, absl::StrCat("the TLS files have changed, and cannot be used: ", why,
                              "; the old ones stay in use"));
    }
    trouble = why;
  }
};

TlsWatch::TlsWatch(std::shared_ptr<TlsIdentity> identity, Log log,
                   std::chrono::milliseconds interval)
    : state_(new State{std::move(identity), std::move(log), interval}) {
  // Detached: the thread may wait for a disk that does not answer.
  std::thread([state = state_] { state->Run(); }).detach();
}

TlsWatch::~TlsWatch() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kPatience, [this] { return state_->ended; });
}

}  // namespace ddprun::auth
