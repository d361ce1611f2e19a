#include "launcher/commands/live/errand.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/stacks/stack_text.h"

namespace ddprun::top {
namespace {

constexpr std::int64_t kLogLines = 500;         // of each stream
constexpr std::size_t kMostLogBytes = 1 << 20;  // of each stream

absl::StatusOr<std::string> StacksText(OperatorClient& client, const std::string& job) {
  const auto stacks = client.Stacks(job);
  if (!stacks.ok()) return stacks.status();
  StackTextOptions options;
  options.label = "rank";
  std::string text = ToText(stacks->tree, options);
  if (!stacks->missing.empty()) {
    absl::StrAppend(&text, "no stacks came in time from ", absl::StrJoin(stacks->missing, ", "));
  }
  return text;
}

// The newest lines of stdout, then those of stderr.
absl::StatusOr<std::string> LogText(OperatorClient& client, const Request& request) {
  OperatorClient::LogsWanted wanted;
  wanted.job = request.job;
  wanted.ranks = {request.rank};
  wanted.span.lines = kLogLines;
  wanted.soon = true;
  const auto logs = client.ReadLogs(wanted);
  if (!logs.ok()) return logs.status();
  std::map<LogSource, std::string> texts;
  OperatorClient::LogPart part;
  while ((*logs)->Next(&part)) {
    std::string& text = texts[part.source];
    text += part.text;
    if (text.size() > kMostLogBytes) text.erase(0, text.size() - kMostLogBytes);
    for (const std::string& note : {part.about, part.note}) {
      if (!note.empty()) absl::StrAppend(&text, "(", note, ")\n");
    }
  }
  if (const absl::Status status = (*logs)->Finish(); !status.ok()) return status;
  std::string all;
  for (const auto& [source, text] : texts) {
    if (text.empty()) continue;
    absl::StrAppend(&all, source.stream == LogStream::kStderr ? "stderr" : "stdout",
                    " of generation ", source.generation.value, ":\n", text,
                    text.back() == '\n' ? "" : "\n");
  }
  if (all.empty()) return std::string("nothing was written");
  all.pop_back();  // the newline after the last line
  return all;
}

}  // namespace

bool BringsText(const Request& request) {
  return request.kind == Request::Kind::kStacks || request.kind == Request::Kind::kLog;
}

absl::StatusOr<std::string> Ask(const OperatorClient::Options& options, const Request& request) {
  OperatorClient client(options);
  switch (request.kind) {
    case Request::Kind::kStop:
      return client.StopJob(request.job, /*save=*/false);
    case Request::Kind::kSaveAndStop:
      return client.StopJob(request.job, /*save=*/true);
    case Request::Kind::kDrain:
      return client.DrainNode(request.host, request.job);
    case Request::Kind::kLog:
      return LogText(client, request);
    case Request::Kind::kStacks:
      break;
  }
  return StacksText(client, request.job);
}

}  // namespace ddprun::top
