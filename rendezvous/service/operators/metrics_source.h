// MetricsSource: makes the text of /metrics of a rendezvous. A thread of its own reads the disk's
// size and writes the text, so neither the job loop nor a heartbeat waits for it.
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

  // `loop` outlives this object; `daemon` is called from within it, and must not block.
  MetricsSource(JobLoop* loop, std::function<DaemonStatus()> daemon, Files files)
      : loop_(loop), daemon_(std::move(daemon)), files_(std::move(files)) {}
  // Leaves a thread behind if a disk does not answer it.
  ~MetricsSource();
  MetricsSource(const MetricsSource&) = delete;
  MetricsSource& operator=(const MetricsSource&) = delete;

  // Makes the text with the jobs of `owner`; empty: all jobs. nullopt: the caller has no
  // credentials, and gets all jobs without host names. Any thread. Once the loop has shut down, the
  // text has no jobs. `done` is called once, on another thread, unless this object is destroyed
  // first.
  void Get(const std::optional<std::string>& owner, std::function<void(std::string)> done);

 private:
  JobLoop* const loop_;
  const std::function<DaemonStatus()> daemon_;
  const Files files_;
  TaskQueue tasks_{"ddprun-metrics"};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_METRICS_SOURCE_H_
