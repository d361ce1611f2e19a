// ServedJob: a job in JobLoop: its JobMachine, and the data that each part of JobLoop has about the
// job.
//
// Used only from within JobLoop, by one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_SERVED_JOB_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_SERVED_JOB_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/machine/job_record.h"
#include "rendezvous/service/agent_stream.h"
#include "rendezvous/service/job/logs/kept_logs.h"
#include "rendezvous/service/job/logs/log_places.h"

namespace ddprun {

// A job that an earlier process has recorded.
struct RecordedJob {
  std::string name;
  std::string owner;  // the principal of its first Join
  JobRecord record;
};

struct ServedJob : std::enable_shared_from_this<ServedJob> {
  ServedJob(std::string name, std::string owner, std::uint32_t requeue_number,
            const JobMachineOptions& options)
      : name(std::move(name)),
        owner(std::move(owner)),
        machine(this->name, requeue_number, options) {}
  ServedJob(const RecordedJob& recorded, TimePoint now, const JobMachineOptions& options)
      : name(recorded.name),
        owner(recorded.owner),
        machine(recorded.name, recorded.record, now, options) {}

  const std::string name;
  const std::string owner;  // the principal of its first Join; empty: no credentials were asked for
  JobMachine machine;
  // Used by JobLoop.
  std::optional<TimePoint> deadline;  // this job's entry in JobLoop's deadlines_

  // Used by Outboxes.
  std::deque<JobMachine::Action> outbox;  // in the JobMachine's order
  std::size_t outbox_sent = 0;            // messages sent of its first action

  // Used by SessionRegistry; by AgentId. SessionRegistry shares the ownership of the streams.
  std::unordered_map<std::uint64_t, AgentStream*> streams;

  // Used by LogRelay.
  LogPlaces log_places;
  KeptLogs kept_logs;

  // Used by OutputCommit: actions that wait for a batch, in the JobMachine's order.
  std::deque<std::pair<std::uint64_t, JobMachine::Action>> held;
};
// Open sessions keep a job alive after another job has taken its name.
using JobPtr = std::shared_ptr<ServedJob>;

// Counts the unfinished jobs, in all and by owner.
class LiveJobs {
 public:
  std::size_t all() const { return all_; }
  std::size_t Of(const std::string& owner) const {
    const auto found = by_owner_.find(owner);
    return found == by_owner_.end() ? 0 : found->second;
  }
  void Add(const ServedJob& job) {
    ++all_;
    ++by_owner_[job.owner];
  }
  void Remove(const ServedJob& job) {
    --all_;
    const auto found = by_owner_.find(job.owner);
    if (--found->second == 0) by_owner_.erase(found);
  }

 private:
  std::size_t all_ = 0;
  std::unordered_map<std::string, std::size_t> by_owner_;  // owners with at least one such job
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_SERVED_JOB_H_
