// SlowCalls: serves slow calls on the threads of a TaskQueue, so that the CallQueues need not wait.
// A call is slow if MUNGE must identify its caller. Operators' calls are slow, too, because an
// answer may be a large text.
//
// The number of waiting calls is limited, in all and for each caller's address. So memory does not
// fill up while munged does not answer, or if a stranger sends too many calls. One address cannot
// take all places. A call above a limit is refused at once; agents try again.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_SLOW_CALLS_H_
#define DDPRUN_RENDEZVOUS_SERVICE_SLOW_CALLS_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/service/server_call.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class SlowCalls {
 public:
  struct Limits {
    std::size_t all = 0;
    std::size_t of_address = 0;
  };

  // `refusals` must outlive this object, and this object must outlive the last task. `tasks` need
  // not exist yet.
  SlowCalls(TaskQueue* tasks, RefusalCounters* refusals, Limits limits)
      : tasks_(tasks), refusals_(refusals), limits_(limits) {}
  SlowCalls(const SlowCalls&) = delete;
  SlowCalls& operator=(const SlowCalls&) = delete;

  // Runs `serve(std::move(call))` soon on a thread of the tasks, or ends the call with
  // ResourceExhausted. Returns at once.
  template <class Call, class Serve>
  void Post(std::unique_ptr<Call> call, Serve serve) {
    absl::StatusOr<Place> place = Enter(call->context.peer());
    if (!place.ok()) {
      EndCall(std::move(call), place.status());
      return;
    }
    tasks_->Post([call = std::move(call), serve = std::move(serve),
                  place = *std::move(place)]() mutable { serve(std::move(call)); });
  }

 private:
  // A waiting call's place within the limits. The destructor gives it back, when the task has run.
  class Place {
   public:
    Place(SlowCalls* calls, std::string address) : calls_(calls), address_(std::move(address)) {}
    Place(Place&& other) noexcept
        : calls_(std::exchange(other.calls_, nullptr)), address_(std::move(other.address_)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (calls_ != nullptr) calls_->Leave(address_);
    }

   private:
    SlowCalls* calls_;
    std::string address_;
  };

  absl::StatusOr<Place> Enter(const std::string& peer);
  void Leave(const std::string& address);

  TaskQueue* const tasks_;
  RefusalCounters* const refusals_;
  const Limits limits_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t all_ = 0;
  std::unordered_map<std::string, std::size_t> by_address_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_SLOW_CALLS_H_
