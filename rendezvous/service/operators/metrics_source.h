// MetricsSource: makes the text of /metrics of a rendezvous. A thread of its own reads disks and
// certificates and writes the text, so neither the job loop nor a heartbeat waits for it.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_METRICS_SOURCE_H_
#define DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_METRICS_SOURCE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/core/measures/daemon_status.h"
#include "rendezvous/service/job/job_loop.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class MetricsSource {
 public:
  struct Files {
    std::string state_dir{};  // of the job records; empty: in memory only
    // PEM files with the rendezvous's certificates, by use; an empty path: none.
    std::map<std::string, std::string> certificates{};
  };

  // `loop` outlives this object. Once Get was called, shut the loop down before this object's end.
  // `daemon` is called from within the loop, and must not block.
  MetricsSource(JobLoop* loop, std::function<DaemonStatus()> daemon, Files files)
      : loop_(loop), daemon_(std::move(daemon)), files_(std::move(files)) {}
  // Does not wait for its thread, because a disk may not answer it.
  ~MetricsSource();
  MetricsSource(const MetricsSource&) = delete;
  MetricsSource& operator=(const MetricsSource&) = delete;

  // Makes the text with the jobs of `owner`; empty: all jobs. nullopt: the caller has no
  // credentials, and gets all jobs without host names. Any thread. While the loop does not answer
  // operators (job_loop.h), the text has no jobs. `done` is called at most once, on another thread,
  // perhaps after the end of this object.
  void Get(const std::optional<std::string>& owner, std::function<void(std::string)> done);

 private:
  JobLoop* const loop_;
  const std::function<DaemonStatus()> daemon_;
  const Files files_;
  TaskQueue tasks_{"ddprun-metrics"};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_METRICS_SOURCE_H_
