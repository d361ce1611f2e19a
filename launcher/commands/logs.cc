// ddprun logs.
#include <re2/re2.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/commands/operator.h"
#include "launcher/text/log_lines.h"
#include "launcher/text/printable.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

// How much is read again when another rendezvous leads: longer than a line takes from the worker to
// this command.
constexpr std::chrono::seconds kOverlap{1};

OperatorClient::LogsWanted WantedBy(const OperatorCommand& command) {
  OperatorClient::LogsWanted wanted;
  wanted.job = command.job;
  wanted.ranks = command.logs.ranks;
  wanted.generation = command.logs.generation;
  if (!command.logs.err) wanted.streams = LogStreams::kStdout;
  if (!command.logs.out) wanted.streams = LogStreams::kStderr;
  wanted.span.lines = command.logs.tail;
  wanted.span.since = command.since;
  wanted.follow = command.follow;
  return wanted;
}

// Writes every byte unchanged to a file or a pipe; on a terminal without control characters. False:
// the reader of stdout is gone.
bool Write(const std::string& text) {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (text.empty()) return true;
  if (terminal) return PrintOut(text);
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

// Writes a note to stderr.
void Note(const OperatorCommand& command, const std::string& text) {
  if (command.verbosity < 0) return;
  std::fprintf(stderr, "ddprun logs: %s\n", Printable(text).c_str());
}

class LogPrinter {
 public:
  LogPrinter(const OperatorCommand& command, LogLines::Options options)
      : command_(command), lines_(std::in_place, std::move(options)) {}

  // False: the reader of stdout is gone.
  bool Take(const OperatorClient::LogPart& part) {
    const Generation generation = part.source.generation;
    if (generation_ && generation_ != generation) {
      Note(command_, absl::StrCat("generation ", generation.value));
    }
    generation_ = generation;
    if (!part.about.empty()) Note(command_, part.about);
    if (!part.end) return Write(lines_->Add(part.source, part.text));
    const bool read = Write(lines_->End(part.source));
    if (part.note.empty()) return read;
    whole_ = false;
    Note(command_, absl::StrCat(LogPrefix(part.source), " ", part.note));
    return read;
  }

  // The files are now read from another position.
  void StartAnew(LogLines::Options options) { lines_.emplace(std::move(options)); }

  bool whole() const { return whole_; }

 private:
  const OperatorCommand& command_;
  std::optional<LogLines> lines_;  // always set
  std::optional<Generation> generation_;
  bool whole_ = true;
};

int PrintLogs(const OperatorCommand& command, OperatorClient& client,
              const LogLines::Options& options) {
  LogPrinter printer(command, options);
  OperatorClient::LogsWanted wanted = WantedBy(command);
  auto heard = Clock::now();
  auto patience = heard;  // waits for a leader until then
  for (;;) {
    const auto logs = client.ReadLogs(wanted);
    absl::Status status = logs.status();
    OperatorClient::LogPart part;
    while (logs.ok() && (*logs)->Next(&part)) {
      heard = Clock::now();
      if (!printer.Take(part)) return 0;
    }
    if (logs.ok()) {
      status = (*logs)->Finish();
      patience = Clock::now() + command.timeout;
    }
    if (status.ok()) return printer.whole() ? 0 : 1;
    const bool goes_on = command.follow && client.several() && absl::IsUnavailable(status);
    if (!goes_on || Clock::now() >= patience) return FailOperator(command, status);
    if (logs.ok()) {
      Note(command, absl::StrCat("lost the rendezvous at ", client.endpoint(),
                                 ": continuing with the leader, from a few lines earlier"));
    }
    std::this_thread::sleep_for(kRetryRendezvous);
    printer.StartAnew(options);
    wanted.span = {};
    wanted.span.since = Clock::now() - heard + kOverlap;
  }
}

}  // namespace

int ShowLogs(const OperatorCommand& command, OperatorClient& client) {
  LogLines::Options options;
  const bool one_file = command.logs.ranks.size() == 1 && command.logs.out != command.logs.err;
  options.prefixed = !one_file;
  const RE2 pattern(command.logs.grep, RE2::Quiet);
  if (!pattern.ok()) {
    return FailOperator(command, absl::InvalidArgumentError(absl::StrCat(
                                     "--grep: expected a regular expression (found \"",
                                     command.logs.grep, "\": ", pattern.error(), ")")));
  }
  if (!command.logs.grep.empty()) {
    options.wanted = [&pattern](std::string_view line) {
      return RE2::PartialMatch({line.data(), line.size()}, pattern);
    };
  }
  return PrintLogs(command, client, options);
}

}  // namespace ddprun
