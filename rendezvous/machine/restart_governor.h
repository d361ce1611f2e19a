// RestartGovernor: whether a job starts again after a generation has ended, and when.
//
// Pure: facts in, a decision with its reason out; the time is an argument and the jitter comes from
// a seed. One per job, in the JobMachine.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_RESTART_GOVERNOR_H_
#define DDPRUN_RENDEZVOUS_MACHINE_RESTART_GOVERNOR_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_record.h"

namespace ddprun {

struct RestartPolicy {
  int max_restarts = 0;
  std::optional<Duration> window;  // max_restarts counts those this recent; nullopt: all
  std::vector<int> never_on;       // a worker's exit codes that end the job at once
};
RestartPolicy PolicyOf(const JobSpec& spec);

class RestartGovernor {
 public:
  // How one generation ended.
  struct Facts {
    RootCause cause;
    bool made_step = false;  // some worker reported a step in it
    Duration ran{};          // from Start to the first failure
  };
  struct Decision {
    bool restart = false;
    Duration delay{};    // before the next forming
    std::string reason;  // for people: why not, or how many are left
  };

  // The first restart is immediate; after each generation without a step in a row the delay doubles
  // from kFirstDelay to kMaxDelay, times a random factor from 1/2 to 1.
  static constexpr Duration kFirstDelay = std::chrono::milliseconds(100);
  static constexpr Duration kMaxDelay = std::chrono::seconds(60);
  // A job that has reported steps and ends this many generations in a row without one is given up.
  static constexpr int kMaxFruitless = 3;
  // MASTER_PORT was taken by somebody else: a new generation with another one, so often in a row.
  static constexpr int kMaxBindRetries = 5;
  // A job whose workers report no steps is taken to have made some after this long.
  static constexpr Duration kLongEnough = std::chrono::seconds(60);

  RestartGovernor(RestartPolicy policy, std::uint64_t seed);

  // One that goes on where another one was when it made `record`.
  RestartGovernor(RestartPolicy policy, const GovernorRecord& record, TimePoint now);
  GovernorRecord Record(TimePoint now) const;

  Decision OnGenerationEnded(const Facts& facts, TimePoint now);

  // Restarts that were granted and counted, in the whole job.
  int restarts_used() const { return restarts_used_; }
  // That would be granted from `now` on, all of them at once.
  int restarts_left(TimePoint now) const;

 private:
  Decision GiveUp(std::string reason) const;
  // Of max_restarts.
  int Counted(TimePoint now) const;
  Duration NextDelay();
  std::uint64_t NextRandom();

  RestartPolicy policy_;
  std::uint64_t random_state_;
  int restarts_used_ = 0;
  std::deque<TimePoint> recent_;  // restarts within the window
  bool reports_steps_ = false;    // in any generation so far
  int fruitless_ = 0;             // generations without a step, in a row
  int bind_retries_ = 0;          // in a row
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_RESTART_GOVERNOR_H_
