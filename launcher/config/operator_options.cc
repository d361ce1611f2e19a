#include "launcher/config/operator_options.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/config/run_options.h"
#include "launcher/config/values.h"

namespace ddprun {
namespace {

using Kind = OperatorCommand::Kind;

constexpr int kDefaultPort = 29400;  // as for agents
constexpr std::size_t kMostJobBytes = 256;
constexpr std::size_t kMostHostBytes = 255;

constexpr FlagSpec kCommonFlags[] = {
    {"rdzv-endpoint", 0, "HOST:PORT", FlagEffect::kOption, "", "",
     "the rendezvous (default 127.0.0.1:29400)"},
    {"timeout", 0, "DURATION", FlagEffect::kOption, "", "",
     "for each answer of the rendezvous (default 10s)"},
    {"token-file", 0, "FILE", FlagEffect::kOption, "", "",
     "the token that the rendezvous asks for; docs/security.md"},
    {"tls-ca", 0, "FILE", FlagEffect::kOption, "", "",
     "encrypt, and trust certificates of this authority"},
    {"tls-cert", 0, "FILE", FlagEffect::kOption, "", "", "your certificate"},
    {"tls-key", 0, "FILE", FlagEffect::kOption, "", "", "its key"},
    {"munge", 0, "", FlagEffect::kOption, "", "", "show by MUNGE who you are"},
    {"munge-socket", 0, "PATH", FlagEffect::kOption, "", "", "of munged, where it is another"},
    {"verbose", 'v', "", FlagEffect::kOption, "", "", "say more"},
    {"quiet", 'q', "", FlagEffect::kOption, "", "", "say only what went wrong"},
    {"help", 'h', "", FlagEffect::kImmediate, "", "", "print this text"},
    {"version", 0, "", FlagEffect::kImmediate, "", "", "print the version"},
};

constexpr FlagSpec kStatusFlags[] = {
    {"json", 0, "", FlagEffect::kOption, "", "", "print JSON; docs/operations.md has its fields"},
    {"watch", 'w', "", FlagEffect::kOption, "", "",
     "go on, and print anew when something has changed"},
};
constexpr FlagSpec kStopFlags[] = {
    {"save", 0, "", FlagEffect::kOption, "", "", "after a checkpoint, where the workers make one"},
    {"no-wait", 0, "", FlagEffect::kOption, "", "", "do not wait until the job has ended"},
};
constexpr FlagSpec kEventsFlags[] = {
    {"follow", 'f', "", FlagEffect::kOption, "", "", "go on with what happens next"},
    {"since", 0, "DURATION", FlagEffect::kOption, "", "", "only what is not older: 30s, 10min, 2h"},
};

struct KindRow {
  const char* name;
  absl::string_view usage;
  std::size_t least;  // arguments
  std::size_t most;
  absl::Span<const FlagSpec> flags;
};

const KindRow& RowOf(Kind kind) {
  static const KindRow kRows[] = {
      {"status",
       "Shows the jobs of a running rendezvous: what state they are in and why, their nodes, "
       "ranks,\n"
       "steps, restarts and spares, and what ended the last generation.\n"
       "\n"
       "  ddprun status [JOB] [OPTIONS]\n"
       "\n",
       0, 1, kStatusFlags},
      {"stop",
       "Ends a job on all its nodes, and waits until it has. Prints how it ended; exits with 0 "
       "then.\n"
       "\n"
       "  ddprun stop JOB [--save] [OPTIONS]\n"
       "\n",
       1, 1, kStopFlags},
      {"drain",
       "Takes a node out of its jobs: they save where they can, and form again without it.\n"
       "\n"
       "  ddprun drain NODE [JOB] [OPTIONS]\n"
       "\n"
       "NODE is the host's name or its address, as `ddprun status` shows them.\n"
       "\n",
       1,
       2,
       {}},
      {"events",
       "Prints what has happened, a JSON object a line, oldest first: joined, formed, started,\n"
       "failed (with its cause), fenced, restarted, finished and others; docs/operations.md.\n"
       "\n"
       "  ddprun events [JOB] [--follow] [OPTIONS]\n"
       "\n",
       0, 1, kEventsFlags},
  };
  return kRows[static_cast<int>(kind)];
}

}  // namespace

absl::string_view OperatorUsage(Kind kind) { return RowOf(kind).usage; }

absl::Span<const FlagSpec> OperatorFlags(Kind kind) {
  static const auto* const tables = [] {
    auto* const all = new std::vector<std::vector<FlagSpec>>;
    for (const Kind each : {Kind::kStatus, Kind::kStop, Kind::kDrain, Kind::kEvents}) {
      const absl::Span<const FlagSpec> own = RowOf(each).flags;
      all->emplace_back(own.begin(), own.end());
      all->back().insert(all->back().end(), std::begin(kCommonFlags), std::end(kCommonFlags));
    }
    return all;
  }();
  return (*tables)[static_cast<std::size_t>(kind)];
}

Command MakeOperatorCommand(Kind kind, const FlagReading& reading, CredentialsConfig credentials) {
  const KindRow& row = RowOf(kind);
  OperatorCommand command;
  command.kind = kind;
  std::vector<std::string> errors;
  const auto expected = [&](const GivenFlag& flag, absl::string_view what) {
    errors.push_back(
        absl::StrCat(flag.origin.place, ": expected ", what, " (found ", Quoted(flag.value), ")"));
  };
  if (std::string conflict = VerbosityConflict(reading); !conflict.empty()) {
    errors.push_back(std::move(conflict));
  }

  command.endpoint = absl::StrCat("127.0.0.1:", kDefaultPort);
  if (const GivenFlag* const given = reading.Find("rdzv-endpoint"); given != nullptr) {
    if (absl::StartsWith(given->value, "unix:/")) {
      command.endpoint = given->value;
    } else if (const auto endpoint = ParseEndpoint(given->value, 1, kDefaultPort)) {
      command.endpoint = FormatEndpoint(*endpoint);
    } else {
      expected(*given, "HOST:PORT or unix:/PATH, where `ddprun rendezvous` listens");
    }
  }
  if (const GivenFlag* const given = reading.Find("timeout"); given != nullptr) {
    const auto timeout = ParseDuration(given->value);
    if (timeout.has_value() && timeout->count() > 0) {
      command.timeout = *timeout;
    } else {
      expected(*given, "a duration above 0, such as 10s");
    }
  }
  if (const GivenFlag* const given = reading.Find("since"); given != nullptr) {
    command.since = ParseDuration(given->value);
    if (!command.since.has_value()) expected(*given, "a duration such as 10min");
  }

  if (reading.rest.size() < row.least || reading.rest.size() > row.most) {
    const absl::string_view what = kind == Kind::kDrain  ? "a node, and a job or none"
                                   : kind == Kind::kStop ? "one job"
                                                         : "one job or none";
    errors.push_back(
        absl::StrCat(row.name, ": expected ", what, " (found ",
                     reading.rest.empty() ? "nothing" : Quoted(absl::StrJoin(reading.rest, " ")),
                     "); ddprun help ", row.name));
  } else {
    std::size_t next = 0;
    if (kind == Kind::kDrain) command.node = reading.rest[next++];
    if (next < reading.rest.size()) command.job = reading.rest[next];
    const bool empty_job = next < reading.rest.size() && command.job.empty();
    if (empty_job || command.job.size() > kMostJobBytes) {
      errors.push_back(absl::StrCat(row.name, ": expected the name of a job, 1 to ", kMostJobBytes,
                                    " bytes (found ", Quoted(command.job), ")"));
    }
    if (kind == Kind::kDrain && (command.node.empty() || command.node.size() > kMostHostBytes)) {
      errors.push_back(absl::StrCat("drain: expected the name or address of a node, 1 to ",
                                    kMostHostBytes, " bytes (found ", Quoted(command.node), ")"));
    }
  }
  command.json = reading.IsOn("json");
  command.watch = reading.IsOn("watch");
  if (command.json && command.watch) {
    errors.push_back("--watch, --json: leave one of them out; `ddprun events --follow` is JSON");
  }
  if (!errors.empty()) return CommandLineError{kExitUsage, absl::StrJoin(errors, "\n")};
  command.save = reading.IsOn("save");
  command.wait = !reading.IsOn("no-wait");
  command.follow = reading.IsOn("follow");
  command.credentials = std::move(credentials);
  command.verbosity = Verbosity(reading);
  return command;
}

}  // namespace ddprun
