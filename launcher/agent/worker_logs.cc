#include "launcher/agent/worker_logs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/text/log_format.h"

namespace ddprun {

WorkerLogs::WorkerLogs(Options options, EventLoop* loop, WriterThread* files, Console console)
    : options_(std::move(options)), loop_(loop), files_(files), console_(std::move(console)) {
  if (!options_.logs.collapse) return;
  collapse_out_ = Collapsing(console_.out);
  if (console_.err != console_.out) collapse_err_ = Collapsing(console_.err);
}

std::unique_ptr<LogPump> WorkerLogs::Pump(const std::string& folder, Rank rank,
                                          LocalRank local_rank, SpawnedProcess* process) {
  first_rank_ = rank.value - local_rank.value;
  const Streams shown = ShownStreams(options_.logs, local_rank.value);
  LogPump::Options pump;
  pump.directory = folder;
  pump.prefix = Prefix({local_rank.value});
  pump.rank = rank.value;
  pump.local_rank = local_rank.value;
  pump.totals = &read_;
  if (shown.out) {
    pump.console.out = console_.out;
    pump.collapse_out = collapse_out_.get();
  }
  if (shown.err) {
    pump.console.err = console_.err;
    pump.collapse_err = (collapse_err_ ? collapse_err_ : collapse_out_).get();
  }
  return std::make_unique<LogPump>(loop_, files_, std::move(pump), std::move(process->stdout_pipe),
                                   std::move(process->stderr_pipe));
}

LogTotals WorkerLogs::totals() const {
  LogTotals totals = read_;
  totals.out_lines_dropped = console_.out->lines_dropped();
  if (console_.err != console_.out) totals.err_lines_dropped = console_.err->lines_dropped();
  totals.file_bytes_dropped = files_->bytes_dropped();
  return totals;
}

void WorkerLogs::Flush() {
  if (collapse_out_) collapse_out_->Flush();
  if (collapse_err_) collapse_err_->Flush();
}

std::unique_ptr<CollapsingConsole> WorkerLogs::Collapsing(
    const std::shared_ptr<ConsoleWriter>& console) {
  const bool colour = console->style().colour;
  return std::make_unique<CollapsingConsole>(
      loop_, console, [this, colour](const std::vector<int>& local_ranks) {
        const std::string prefix = Prefix(local_ranks);
        return colour ? ColourPrefix(prefix, first_rank_ + local_ranks.front()) : prefix;
      });
}

std::string WorkerLogs::Prefix(const std::vector<int>& local_ranks) const {
  std::vector<int> ranks = local_ranks;
  for (int& rank : ranks) rank += first_rank_;
  const std::string& own = options_.prefix_template;
  return ExpandPrefix(own.empty() ? kDefaultPrefixTemplate : std::string_view(own),
                      {options_.role, FormatRanks(ranks), FormatRanks(local_ranks)});
}

std::string PrefixTemplate(const std::vector<std::string>& environ) {
  const std::string name = absl::StrCat(kPrefixTemplateVariable, "=");
  for (const std::string& entry : environ) {
    if (entry.starts_with(name)) return entry.substr(name.size());
  }
  return "";
}

}  // namespace ddprun
