#include "launcher/config/flags/operator_options.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/config/etcd/etcd_options.h"
#include "launcher/config/flags/run_options.h"
#include "launcher/config/flags/subcommands.h"
#include "launcher/config/values.h"
#include "rendezvous/core/messages/logs.h"
#include "rendezvous/core/types.h"

namespace ddprun {
namespace {

using Kind = OperatorCommand::Kind;

constexpr FlagSpec kCommonFlags[] = {
    {"rdzv-endpoint", 0, "HOST:PORT[,...]", FlagEffect::kOption, "", "",
     "the rendezvous (default 127.0.0.1:{port}); with several, the leader answers"},
    {"rdzv-backend", 0, "NAME", FlagEffect::kOption, "", "",
     "etcd: --rdzv-endpoint names the members of an etcd, separated by commas. This etcd knows the "
     "address of the rendezvous"},
    {"etcd-prefix", 0, "PATH", FlagEffect::kOption, "", "",
     "prefix of the keys in etcd (default /ddprun)"},
    {"etcd-ca", 0, "FILE", FlagEffect::kOption, "", "",
     "authority that signed etcd's certificates"},
    {"etcd-cert", 0, "FILE", FlagEffect::kOption, "", "",
     "certificate for etcd, if etcd requires one"},
    {"etcd-key", 0, "FILE", FlagEffect::kOption, "", "", "key of --etcd-cert"},
    {"etcd-user", 0, "NAME", FlagEffect::kOption, "", "", "user in etcd, if etcd requires one"},
    {"etcd-password-file", 0, "FILE", FlagEffect::kOption, "", "",
     "file with the password of --etcd-user in its first line"},
    {"timeout", 0, "DURATION", FlagEffect::kOption, "", "",
     "how long to wait for each answer of the rendezvous (default {answer})"},
    {"token-file", 0, "FILE", FlagEffect::kOption, "", "",
     "the token that the rendezvous asks for; docs/security.md"},
    {"tls-ca", 0, "FILE", FlagEffect::kOption, "", "",
     "encrypt, and trust certificates of this authority"},
    {"tls-cert", 0, "FILE", FlagEffect::kOption, "", "", "your certificate"},
    {"tls-key", 0, "FILE", FlagEffect::kOption, "", "", "key of --tls-cert"},
    {"munge", 0, "", FlagEffect::kOption, "", "", "authenticate with MUNGE"},
    {"munge-socket", 0, "PATH", FlagEffect::kOption, "", "",
     "munged's socket (default: libmunge's)"},
    {"insecure", 0, "", FlagEffect::kOption, "", "",
     "for a rendezvous on loopback that runs with --insecure"},
    {"verbose", 'v', "", FlagEffect::kOption, "", "", "say more"},
    {"quiet", 'q', "", FlagEffect::kOption, "", "", "say only what went wrong"},
    {"help", 'h', "", FlagEffect::kImmediate, "", "", "print this text"},
    {"version", 0, "", FlagEffect::kImmediate, "", "", "print the version"},
};

// The other values of an agent's --rdzv-backend. With them the endpoint is the rendezvous.
constexpr absl::string_view kOtherBackends[] = {"c10d", "static", "ddprun"};

constexpr FlagSpec kStatusFlags[] = {
    {"json", 0, "", FlagEffect::kOption, "", "", "print JSON; docs/jobs.md has its fields"},
    {"watch", 'w', "", FlagEffect::kOption, "", "", "continue, and print again after each change"},
};
constexpr FlagSpec kStopFlags[] = {
    {"save", 0, "", FlagEffect::kOption, "", "", "make a checkpoint first, if the workers can"},
    {"no-wait", 0, "", FlagEffect::kOption, "", "", "do not wait until the job has ended"},
};
constexpr FlagSpec kEventsFlags[] = {
    {"follow", 'f', "", FlagEffect::kOption, "", "", "continue with new events"},
    {"since", 0, "DURATION", FlagEffect::kOption, "", "",
     "only events of the last DURATION: 30s, 10min, 2h"},
    {"trace", 0, "", FlagEffect::kOption, "", "",
     "print one trace instead, for Perfetto or chrome://tracing"},
};

constexpr FlagSpec kLogsFlags[] = {
    {"rank", 0, "RANKS", FlagEffect::kOption, "", "",
     "only these ranks: 3, or 0,4-7 (default: all ranks of a job of at most 64)"},
    {"generation", 0, "N", FlagEffect::kOption, "", "",
     "only this generation (default: the newest; with --follow also later ones)"},
    {"stdout", 0, "", FlagEffect::kOption, "", "", "only stdout"},
    {"stderr", 0, "", FlagEffect::kOption, "", "", "only stderr"},
    {"tail", 0, "N", FlagEffect::kOption, "", "", "only the last N lines of each file"},
    {"since", 0, "DURATION", FlagEffect::kOption, "", "",
     "only output of about the last DURATION: 30s, 10min, 2h"},
    {"follow", 'f', "", FlagEffect::kOption, "", "", "continue with new output"},
    {"grep", 0, "REGEX", FlagEffect::kOption, "", "", "only lines that match (RE2)"},
};

constexpr FlagSpec kStacksFlags[] = {
    {"pid", 'p', "PID", FlagEffect::kList, "", "",
     "a process of this node instead of a job; may be given several times"},
    {"rank", 0, "RANK", FlagEffect::kOption, "", "", "only this rank of the job"},
    {"json", 0, "", FlagEffect::kOption, "", "", "print JSON; docs/stacks.md has its fields"},
    {"full", 0, "", FlagEffect::kOption, "", "", "do not shorten long lines: print every frame"},
};

struct KindRow {
  const char* name;
  absl::string_view usage;
  absl::string_view expected;  // arguments
  std::size_t least;
  std::size_t most;
  absl::Span<const FlagSpec> flags;
};

const KindRow& RowOf(Kind kind) {  // table
  static const KindRow kRows[] = {
      {"status",
       "Shows the jobs of a running rendezvous: their state and its reason, their nodes, ranks, "
       "steps,\n"
       "restarts and spares, and the last root cause.\n"
       "\n"
       "  ddprun status [JOB] [OPTIONS]\n"
       "\n",
       "one job or none", 0, 1, kStatusFlags},
      {"stop",
       "Ends a job on all its nodes, waits until it has ended, prints how it ended, and exits with "
       "0.\n"
       "\n"
       "  ddprun stop JOB [--save] [OPTIONS]\n"
       "\n",
       "one job", 1, 1, kStopFlags},
      {"drain",
       "Takes a node out of its jobs. Their workers save if they can, and the jobs form the next\n"
       "generation without the node.\n"
       "\n"
       "  ddprun drain NODE [JOB] [OPTIONS]\n"
       "\n"
       "NODE is the host's name or its address, as `ddprun status` shows them.\n"
       "\n",
       "a node, and a job or none",
       1,
       2,
       {}},
      {"events",
       "Prints the events of jobs, oldest first, one JSON object in each line: joined, formed, "
       "started,\n"
       "failed (with its cause), fenced, restarted, finished and others; docs/jobs.md.\n"
       "\n"
       "  ddprun events [JOB] [--follow] [OPTIONS]\n"
       "\n",
       "one job or none", 0, 1, kEventsFlags},
      {"stacks",
       "Prints where the ranks of a job, or processes of this node, are in their code: the stacks "
       "of all\n"
       "their threads, merged into one tree. Each process is stopped for a few milliseconds and "
       "then\n"
       "continues. docs/stacks.md shows how to read the tree.\n"
       "\n"
       "  ddprun stacks JOB [--rank RANK] [--json] [--full] [OPTIONS]\n"
       "  ddprun stacks --pid PID [--pid PID]... [--json] [--full] [--timeout DURATION]\n"
       "\n"
       "Exit code 77 if ddprun lacks the permission to read a process, or the rendezvous refuses "
       "you;\n"
       "1 if a process is missing for another reason, or there is no such job; 69 if the "
       "rendezvous\n"
       "cannot be reached.\n"
       "\n",
       "one job, or --pid PID", 1, 1, kStacksFlags},
      {"logs",
       "Prints what the workers of a job wrote to stdout and stderr, on any of its nodes. For a "
       "finished\n"
       "job it prints what the rendezvous has kept: output of the root cause and its victims.\n"
       "\n"
       "  ddprun logs JOB [--rank RANKS] [--generation N] [--stdout | --stderr] [--tail N]\n"
       "                  [--since DURATION] [--follow] [--grep REGEX] [OPTIONS]\n"
       "\n"
       "If several files are read, each line begins with its rank: [3]: for stdout, [3 stderr]: "
       "for\n"
       "stderr. Exit code 1 if a file cannot be read to its end.\n"
       "\n",
       "one job", 1, 1, kLogsFlags},
      {"page",
       "Prints a link to the web page of a running rendezvous (--http). The link signs in whoever "
       "opens\n"
       "it. It works once, within one minute. docs/page.md.\n"
       "\n"
       "  ddprun page [JOB] [OPTIONS]\n"
       "\n",
       "one job or none",
       0,
       1,
       {}},
      {"top",
       "Shows jobs, nodes and ranks live on the whole terminal. Its last line names the keys, "
       "which also\n"
       "stop jobs or drain nodes. If stdin or stdout is no terminal, it prints its view once.\n"
       "\n"
       "  ddprun top [JOB] [OPTIONS]\n"
       "\n",
       "one job or none",
       0,
       1,
       {}},
  };
  return kRows[static_cast<int>(kind)];
}

// Parses "0,4-7". False: malformed, or too many ranks.
bool ParseRanks(absl::string_view text, std::vector<int>* ranks) {
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    const auto first = ParseWholeNumber(ends.first);
    const auto last = absl::StrContains(part, '-') ? ParseWholeNumber(ends.second) : first;
    if (!first || !last || *first < 0 || *last < *first ||
        *last > std::numeric_limits<int>::max() ||
        *last - *first >= static_cast<std::int64_t>(kMaxLogRanks - ranks->size())) {
      return false;
    }
    for (std::int64_t rank = *first; rank <= *last; ++rank) {
      ranks->push_back(static_cast<int>(rank));
    }
  }
  return true;
}

class OperatorOptions {
 public:
  OperatorOptions(Kind kind, const FlagReading& reading, const Host& host)
      : row_(RowOf(kind)), reading_(reading), host_(host) {
    command_.kind = kind;
  }

  Command Make(CredentialsConfig credentials) {
    if (std::string conflict = VerbosityConflict(reading_); !conflict.empty()) {
      errors_.push_back(std::move(conflict));
    }
    TakeEndpoint();
    TakeTimes();
    TakeArguments();
    if (command_.kind == Kind::kLogs) {
      TakeLogs();
    } else {
      TakeRank();
    }
    command_.json = reading_.IsOn("json");
    command_.full = reading_.IsOn("full");
    command_.watch = reading_.IsOn("watch");
    if (command_.json && command_.watch) {
      errors_.push_back("--watch, --json: leave one of them out; `ddprun events --follow` is JSON");
    }
    command_.follow = reading_.IsOn("follow");
    command_.trace = reading_.IsOn("trace");
    if (command_.trace && command_.follow) {
      errors_.push_back("--trace shows past events: it cannot be given with --follow");
    }
    if (!errors_.empty()) return UsageError(errors_);
    command_.save = reading_.IsOn("save");
    command_.wait = !reading_.IsOn("no-wait");
    command_.credentials = std::move(credentials);
    command_.insecure = reading_.IsOn("insecure");
    command_.verbosity = Verbosity(reading_);
    return std::move(command_);
  }

 private:
  void AddError(const GivenFlag& flag, absl::string_view expected) {
    errors_.push_back(absl::StrCat(flag.origin.place, ": expected ", expected, " (found ",
                                   Quoted(flag.value), ")"));
  }

  void TakeEndpoint() {
    command_.endpoint = absl::StrCat("127.0.0.1:", kDefaultPort);
    const GivenFlag* const given = reading_.Find("rdzv-endpoint");
    if (InEtcd()) return TakeEtcd(given);
    if (given == nullptr) return;
    if (absl::StartsWith(given->value, "unix:/")) {
      command_.endpoint = given->value;
    } else if (const auto endpoints = ParseEndpoints(given->value, 1, kDefaultPort)) {
      command_.endpoint = *endpoints;
    } else {
      AddError(*given, absl::StrCat(
                           "HOST:PORT, where `ddprun rendezvous` listens, or unix:/PATH, or up to ",
                           kMaxEndpoints, " HOST:PORT with commas"));
    }
  }

  // Whether an etcd names the rendezvous.
  bool InEtcd() {
    const GivenFlag* const backend = reading_.Find("rdzv-backend");
    if (backend != nullptr && backend->value == kEtcdBackend) return true;
    if (backend != nullptr &&
        !std::count(std::begin(kOtherBackends), std::end(kOtherBackends), backend->value)) {
      AddError(*backend, absl::StrCat("etcd, or one of ", absl::StrJoin(kOtherBackends, ", "),
                                      ", if the endpoint is the rendezvous"));
    }
    for (const FlagSpec& flag : kCommonFlags) {
      if (!absl::StartsWith(flag.name, "etcd-")) continue;
      const GivenFlag* const given = reading_.Find(flag.name);
      // Variables may be there for other commands.
      if (given == nullptr || given->origin.source == Source::kEnvironment) continue;
      errors_.push_back(absl::StrCat(given->origin.place, ": goes with --rdzv-backend etcd only"));
    }
    return false;
  }

  void TakeEtcd(const GivenFlag* endpoints) {
    if (endpoints == nullptr) {
      errors_.push_back(
          "--rdzv-backend etcd needs --rdzv-endpoint HOST:2379, the members of an etcd");
      return;
    }
    command_.etcd = TakeEtcdAccess(reading_, *endpoints, host_, &errors_);
    command_.endpoint = absl::StrJoin(command_.etcd->endpoints, ",");
  }

  void TakeRank() {
    const GivenFlag* const given = reading_.Find("rank");
    if (given == nullptr) return;
    const auto rank = ParseWholeNumber(given->value);
    if (rank.has_value() && *rank >= 0 && *rank <= std::numeric_limits<int>::max()) {
      command_.rank = static_cast<int>(*rank);
    } else {
      AddError(*given, "the rank of a worker, 0 or more");
    }
  }

  void TakeLogs() {
    OperatorCommand::Logs& logs = command_.logs;
    if (const GivenFlag* const given = reading_.Find("rank"); given != nullptr) {
      if (!ParseRanks(given->value, &logs.ranks)) {
        AddError(*given, absl::StrCat("at most ", kMaxLogRanks, " ranks, such as 3 or 0,4-7"));
      }
    }
    if (const GivenFlag* const given = reading_.Find("generation"); given != nullptr) {
      const auto generation = ParseWholeNumber(given->value);
      if (generation && *generation >= 0 && *generation <= kMaxClaimedGeneration) {
        logs.generation = static_cast<int>(*generation);
      } else {
        AddError(*given, "a generation, 0 or more");
      }
    }
    if (const GivenFlag* const given = reading_.Find("tail"); given != nullptr) {
      logs.tail = ParseWholeNumber(given->value);
      if (!logs.tail || *logs.tail < 0 || *logs.tail > kMaxLogLines) {
        AddError(*given, "a number of lines, 0 or more");
      }
    }
    if (const GivenFlag* const given = reading_.Find("grep"); given != nullptr) {
      logs.grep = given->value;
    }
    const bool out = reading_.IsOn("stdout");
    const bool err = reading_.IsOn("stderr");
    logs.out = out || !err;
    logs.err = err || !out;
  }

  void TakeTimes() {
    if (const GivenFlag* const given = reading_.Find("timeout"); given != nullptr) {
      const auto timeout = ParseDuration(given->value);
      if (timeout.has_value() && timeout->count() > 0) {
        command_.timeout = *timeout;
      } else {
        AddError(*given, "a duration above 0, such as 10s");
      }
    }
    if (const GivenFlag* const given = reading_.Find("since"); given != nullptr) {
      command_.since = ParseDuration(given->value);
      // Accepts "10m", as kubectl logs and journalctl do: people type this.
      if (!command_.since.has_value() && absl::EndsWith(given->value, "m")) {
        command_.since = ParseDuration(absl::StrCat(given->value, "in"));
      }
      if (!command_.since.has_value()) AddError(*given, "a duration such as 10min");
    }
  }

  void TakeArguments() {
    const std::vector<std::string>& rest = reading_.rest;
    if (rest.size() < row_.least || rest.size() > row_.most) {
      errors_.push_back(absl::StrCat(row_.name, ": expected ", row_.expected, " (found ",
                                     rest.empty() ? "nothing" : Quoted(absl::StrJoin(rest, " ")),
                                     "); ddprun help ", row_.name));
      return;
    }
    std::size_t next = 0;
    const bool drains = command_.kind == Kind::kDrain;
    if (drains) command_.node = rest[next++];
    if (next < rest.size()) command_.job = rest[next];
    const bool empty_job = next < rest.size() && command_.job.empty();
    if (empty_job || command_.job.size() > kMaxJobBytes) {
      errors_.push_back(absl::StrCat(row_.name, ": expected the name of a job, 1 to ", kMaxJobBytes,
                                     " bytes (found ", Quoted(command_.job), ")"));
    }
    if (drains && (command_.node.empty() || command_.node.size() > kMaxHostBytes)) {
      errors_.push_back(absl::StrCat("drain: expected the name or address of a node, 1 to ",
                                     kMaxHostBytes, " bytes (found ", Quoted(command_.node), ")"));
    }
  }

  const KindRow& row_;
  const FlagReading& reading_;
  const Host& host_;
  OperatorCommand command_;
  std::vector<std::string> errors_;
};

template <Kind kind>
HelpCommand Help() {
  return HelpFor(absl::StrCat(RowOf(kind).usage, "JOB is the --rdzv-id of the job, or ",
                              kUnnamedJob, " where it has none.\n\n"),
                 OperatorFlags(kind));
}

template <Kind kind>
Command Parse(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading =
      ReadFlags(OperatorFlags(kind), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, Help<kind>)) return *std::move(end);
  return OperatorOptions(kind, reading, host).Make(Credentials(reading, host));
}

}  // namespace

absl::Span<const FlagSpec> OperatorFlags(Kind kind) {
  static const auto* const tables = [] {
    auto* const all = new std::vector<std::vector<FlagSpec>>;
    for (const Kind each : {Kind::kStatus, Kind::kStop, Kind::kDrain, Kind::kEvents, Kind::kStacks,
                            Kind::kLogs, Kind::kPage, Kind::kTop}) {
      const absl::Span<const FlagSpec> own = RowOf(each).flags;
      all->emplace_back(own.begin(), own.end());
      all->back().insert(all->back().end(), std::begin(kCommonFlags), std::end(kCommonFlags));
    }
    return all;
  }();
  return (*tables)[static_cast<std::size_t>(kind)];
}

Command ParseStatus(const std::vector<std::string>& arguments, const Host& host) {
  return Parse<Kind::kStatus>(arguments, host);
}
HelpCommand StatusHelp() { return Help<Kind::kStatus>(); }

Command ParseStop(const std::vector<std::string>& arguments, const Host& host) {
  return Parse<Kind::kStop>(arguments, host);
}
HelpCommand StopHelp() { return Help<Kind::kStop>(); }

Command ParseDrain(const std::vector<std::string>& arguments, const Host& host) {
  return Parse<Kind::kDrain>(arguments, host);
}
HelpCommand DrainHelp() { return Help<Kind::kDrain>(); }

Command ParseEvents(const std::vector<std::string>& arguments, const Host& host) {
  return Parse<Kind::kEvents>(arguments, host);
}
HelpCommand EventsHelp() { return Help<Kind::kEvents>(); }

Command ParseStacks(const std::vector<std::string>& arguments, const Host& host) {
  const FlagReading reading =
      ReadFlags(OperatorFlags(Kind::kStacks), arguments, Positionals::kAnywhere, host);
  if (auto end = EarlyEnd(reading, StacksHelp)) return *std::move(end);
  if (!reading.FindAll("pid").empty()) return StacksOfProcesses(reading);
  return OperatorOptions(Kind::kStacks, reading, host).Make(Credentials(reading, host));
}
HelpCommand StacksHelp() { return Help<Kind::kStacks>(); }

Command ParseLogs(const std::vector<std::string>& arguments, const Host& host) {
  return Parse<Kind::kLogs>(arguments, host);
}
HelpCommand LogsHelp() { return Help<Kind::kLogs>(); }
Command ParsePage(const std::vector<std::string>& arguments, const Host& host) {
  return Parse<Kind::kPage>(arguments, host);
}
HelpCommand PageHelp() { return Help<Kind::kPage>(); }
Command ParseTop(const std::vector<std::string>& arguments, const Host& host) {
  return Parse<Kind::kTop>(arguments, host);
}
HelpCommand TopHelp() { return Help<Kind::kTop>(); }

}  // namespace ddprun
