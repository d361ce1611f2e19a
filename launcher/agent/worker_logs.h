// The output of this node's workers. Each worker has a LogPump to its files, and to the console if
// the job's options allow it.
//
// Belongs to NodeWorkers and the loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_WORKER_LOGS_H_
#define DDPRUN_LAUNCHER_AGENT_WORKER_LOGS_H_

#include <memory>
#include <string>
#include <vector>

#include "launcher/config/log_options.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/output/collapsing_console.h"
#include "launcher/os/output/console_writer.h"
#include "launcher/os/output/log_pump.h"
#include "launcher/os/output/log_totals.h"
#include "launcher/os/output/writer_thread.h"
#include "launcher/os/process/process_runner.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class WorkerLogs {
 public:
  struct Options {
    LogsConfig logs;
    std::string role;
    std::string prefix_template;  // "" is the default
  };

  // `loop` and `files` must outlive this object; this object must outlive its pumps.
  WorkerLogs(Options options, EventLoop* loop, WriterThread* files, Console console);
  WorkerLogs(const WorkerLogs&) = delete;
  WorkerLogs& operator=(const WorkerLogs&) = delete;

  // Takes over the pipes of a worker that was just started. Its log files go to `folder`.
  std::unique_ptr<LogPump> Pump(const std::string& folder, Rank rank, LocalRank local_rank,
                                SpawnedProcess* process);

  // Totals since the start. If stdout and stderr share one console, all its dropped lines count as
  // stdout's.
  LogTotals totals() const;

  // Writes the lines held back by --collapse to the console.
  void Flush();

 private:
  std::unique_ptr<CollapsingConsole> Collapsing(const std::shared_ptr<ConsoleWriter>& console);
  std::string Prefix(const std::vector<int>& local_ranks) const;

  const Options options_;
  EventLoop* const loop_;
  WriterThread* const files_;
  const Console console_;
  LogTotals read_;  // read by the pumps
  // Set with --collapse. If both streams have one console, collapse_out_ takes both.
  std::unique_ptr<CollapsingConsole> collapse_out_;
  std::unique_ptr<CollapsingConsole> collapse_err_;
  int first_rank_ = 0;  // global rank of local rank 0 in the running generation
};

// The value of TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE in `environ` (NAME=value); "": not set.
std::string PrefixTemplate(const std::vector<std::string>& environ);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_LOGS_H_
