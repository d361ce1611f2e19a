#include "launcher/owner_watch.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/contract/checkpoint_owner.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kLockLimit{1};

bool IsLaterLife(const CheckpointOwner& owner, const std::string& job, std::uint32_t epoch) {
  return owner.job == job && owner.epoch > epoch;
}

}  // namespace

void ClaimFromEarlierLife(const std::string& folder, const std::string& job, std::uint32_t epoch) {
  const auto earlier = [&](const std::optional<CheckpointOwner>& owner) {
    return owner && owner->job == job && owner->epoch < epoch;
  };
  if (!earlier(ReadOwner(folder))) return;
  try {
    OwnerFile file(folder, OwnerFile::For::kClaiming);
    file.Lock(kLockLimit);
    if (earlier(file.Read())) file.Write({job, epoch, 0});
  } catch (const std::system_error&) {
    // Not ours to write, or gone meanwhile.
  }
}

struct OwnerWatch::Shared {
  Shared(EventLoop* its_loop, Options what, std::function<void(std::string)> then)
      : options(std::move(what)), superseded(std::move(then)), loop(its_loop) {}

  const Options options;
  const std::function<void(std::string)> superseded;
  std::mutex mutex;
  std::condition_variable over;
  EventLoop* loop;  // nullptr: nobody waits any more; guarded by mutex
};

OwnerWatch::OwnerWatch(EventLoop* loop, Options options,
                       std::function<void(std::string)> superseded)
    : shared_(std::make_shared<Shared>(loop, std::move(options), std::move(superseded))),
      thread_("ddprun-owner", [shared = shared_] {
        const auto& [folder, job, epoch, interval] = shared->options;
        while (true) {
          const auto owner = ReadOwner(folder);
          std::unique_lock<std::mutex> lock(shared->mutex);
          if (shared->loop == nullptr) return;
          if (owner && IsLaterLife(*owner, job, epoch)) {
            const std::string text = absl::StrCat("epoch ", epoch, " of job ", job,
                                                  " is over: it was started again, and ", folder,
                                                  " belongs to epoch ", owner->epoch);
            shared->loop->Post([shared, text] {
              if (shared->loop != nullptr) shared->superseded(text);
            });
            return;
          }
          shared->over.wait_for(lock, interval, [&] { return shared->loop == nullptr; });
          if (shared->loop == nullptr) return;
        }
      }) {}

OwnerWatch::~OwnerWatch() {
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->loop = nullptr;
    shared_->over.notify_all();
  }
  thread_.JoinWithin(std::chrono::milliseconds(0));
}

}  // namespace ddprun
