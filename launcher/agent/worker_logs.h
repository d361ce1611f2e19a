// What becomes of the output of this node's workers: for each worker a LogPump to its files, and
// to the console as far as the job's options let it be shown there.
//
// Belongs to the agent and its loop's thread; lives as long as the agent.
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

  // `loop` and `files` must outlive this object, and this object the pumps it makes.
  WorkerLogs(Options options, EventLoop* loop, WriterThread* files, Console console);
  WorkerLogs(const WorkerLogs&) = delete;
  WorkerLogs& operator=(const WorkerLogs&) = delete;

  // Takes over the pipes of a worker that was just started. `folder` gets its log files.
  std::unique_ptr<LogPump> Pump(const std::string& folder, Rank rank, LocalRank local_rank,
                                SpawnedProcess* process);

  // Since the start. Where stdout and stderr have one terminal, its lines count as stdout's.
  LogTotals totals() const;

  // Hands what is held back for --collapse to the console.
  void Flush();

 private:
  std::unique_ptr<CollapsingConsole> Collapsing(const std::shared_ptr<ConsoleWriter>& console);
  std::string Prefix(const std::vector<int>& local_ranks) const;

  const Options options_;
  EventLoop* const loop_;
  WriterThread* const files_;
  const Console console_;
  LogTotals read_;  // by the pumps
  // With --collapse. Where both streams have one console, they are both collapse_out_'s.
  std::unique_ptr<CollapsingConsole> collapse_out_;
  std::unique_ptr<CollapsingConsole> collapse_err_;
  int first_rank_ = 0;  // local rank 0's global rank, in the generation that is running
};

// The value of TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE among `environ`, entries NAME=value; "" when
// there is none.
std::string PrefixTemplate(const std::vector<std::string>& environ);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_LOGS_H_
