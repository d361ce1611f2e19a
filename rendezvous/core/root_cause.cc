#include "rendezvous/core/root_cause.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/limits.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace {

// Messages of Gloo, NCCL and sockets when a peer is gone. For workers that report no error kind.
constexpr std::array kLastWordsOfVictims = {
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "connection refused",
    "socket timeout",
    "ncclremoteerror",
    "nccl communicator was aborted",
    "watchdog caught collective",
    "application timeout",
};

bool HasLastWordsOfVictim(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return std::any_of(kLastWordsOfVictims.begin(), kLastWordsOfVictims.end(),
                     [&](const char* words) { return absl::StrContains(lower, words); });
}

// Messages of Python's sockets and torch's TCPStore, in all versions.
bool HasWordsOfATakenPort(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return absl::StrContains(lower, "address already in use") ||
         absl::StrContains(lower, "eaddrinuse");
}

// True if a traceback ends with an exception about a taken port. Other output does not count: the
// program may log that it takes the next port.
bool EndsATracebackWithATakenPort(const std::vector<std::string>& lines) {
  bool in_traceback = false;
  for (const std::string& line : lines) {
    if (absl::StartsWith(line, "Traceback (") || absl::StartsWith(line, "  File \"")) {
      in_traceback = true;
    } else if (in_traceback && !line.empty() && line.front() != ' ') {
      if (HasWordsOfATakenPort(line)) return true;
      in_traceback = false;
    }
  }
  return false;
}

// True if a C++ exception about a taken port reached std::terminate().
bool IsAbortedByATakenPort(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return absl::StartsWith(line, "  what():") && HasWordsOfATakenPort(line);
  });
}

// The port in a message about a taken port: "to bind to [::]:29500 (errno: 98 - ..." of torch 1.13,
// "port: 29500, useIpv6: ..." of later versions. nullopt: the message names no port, for example
// that of Python's OSError.
std::optional<int> PortIn(absl::string_view message) {
  for (const absl::string_view before : {"to bind to ", "port: "}) {
    const std::size_t found = message.find(before);
    if (found == message.npos) continue;
    absl::string_view rest = message.substr(found + before.size());
    rest = rest.substr(0, rest.find_first_of(" ,"));
    if (const std::size_t colon = rest.rfind(':'); colon != rest.npos)
      rest.remove_prefix(colon + 1);
    if (int port = 0; absl::SimpleAtoi(rest, &port)) return port;
  }
  return std::nullopt;
}

// True if the messages about a taken port name ports, and none of them is `port`.
bool NamesOnlyOtherPorts(const WorkerExited& exit, int port) {
  std::vector<std::string> messages = exit.stderr_tail;
  messages.push_back(exit.error_text);
  bool others = false;
  for (const std::string& message : messages) {
    const auto named = HasWordsOfATakenPort(message) ? PortIn(message) : std::nullopt;
    if (named == port) return false;
    others = others || named;
  }
  return others;
}

// The port at which a client of torch's store timed out, from the messages of all versions: "The
// client socket has timed out after 60s while trying to connect to (n1, 29501)."
std::optional<int> PortOfStoreTimeout(absl::string_view text) {
  const std::size_t timeout = text.find("The client socket has timed out after ");
  if (timeout == text.npos) return std::nullopt;
  text.remove_prefix(timeout);
  const std::size_t end = text.find(')');
  const std::size_t comma = text.substr(0, end).rfind(", ");
  int port = 0;
  if (end == text.npos || comma == text.npos ||
      !absl::SimpleAtoi(text.substr(comma + 2, end - comma - 2), &port)) {
    return std::nullopt;
  }
  return port;
}

std::optional<int> PortOfStoreTimeout(const WorkerExited& exit) {
  if (const auto port = PortOfStoreTimeout(exit.error_text)) return port;
  for (const std::string& line : exit.stderr_tail) {
    if (const auto port = PortOfStoreTimeout(line)) return port;
  }
  return std::nullopt;
}

// The text of Gloo's check in pair.cc. In the message, both sizes follow it.
constexpr char kGlooMismatch[] = "op.preamble.length <= op.nbytes";

bool OfAWorker(const RootCause& cause) {
  return cause.kind == RootCause::Kind::kWorkerFailed ||
         cause.kind == RootCause::Kind::kWorkerLeftEarly || cause.kind == RootCause::Kind::kHung;
}

}  // namespace

const char* NameOf(RootCause::Kind kind) {
  switch (kind) {
    case RootCause::Kind::kWorkerFailed:
      return "worker_failed";
    case RootCause::Kind::kWorkerLeftEarly:
      return "worker_left_early";
    case RootCause::Kind::kNodeLost:
      return "node_lost";
    case RootCause::Kind::kNodeLeft:
      return "node_left";
    case RootCause::Kind::kHung:
      return "hung";
  }
  return "?";
}

bool IsVictim(const WorkerExited& exit) {
  if (!exit.error_kind.empty()) return exit.error_kind == control::kErrorCollective;
  // A worker whose peer died ends by exit() or abort(): it does not crash, and nobody kills it.
  if (exit.status.signal != 0 && exit.status.signal != SIGABRT) return false;
  return HasLastWordsOfVictim(exit.error_text) ||
         std::any_of(exit.stderr_tail.begin(), exit.stderr_tail.end(), HasLastWordsOfVictim);
}

bool IsTakenPort(const WorkerExited& exit) {
  if (!exit.error_kind.empty()) return exit.error_kind == control::kErrorBind;
  if (exit.status.signal == SIGABRT) return IsAbortedByATakenPort(exit.stderr_tail);
  if (exit.status.signal != 0 || exit.status.code == 0) return false;
  return HasWordsOfATakenPort(exit.error_text) || EndsATracebackWithATakenPort(exit.stderr_tail);
}

std::string WhyNoAgentStore(const RootCause& cause, int master_port) {
  const WorkerExited& exit = cause.failure.exit;
  // Pid 0: no worker was started, because its agent could not listen.
  if (cause.kind != RootCause::Kind::kWorkerFailed || exit.pid == 0) return "";
  const std::string who = absl::StrCat("rank ", exit.rank.value, " on ", cause.failure.host);
  if (IsTakenPort(exit)) {
    if (NamesOnlyOtherPorts(exit, master_port)) return "";
    return absl::StrCat(who,
                        " found a port taken, as a program does that serves torch's store on "
                        "MASTER_PORT itself");
  }
  const std::optional<int> port = PortOfStoreTimeout(exit);
  if (!port || *port == master_port) return "";
  return absl::StrCat(who, " has looked for torch's store at port ", *port, ", not at MASTER_PORT");
}

bool IsMismatchOfSizes(const WorkerExited& exit) {
  return !exit.status.ok() &&
         std::any_of(exit.stderr_tail.begin(), exit.stderr_tail.end(), [](const std::string& line) {
           return absl::StrContains(line, kGlooMismatch);
         });
}

bool MayBeOfAMismatch(const RootCause& cause) {
  const WorkerExited& exit = cause.failure.exit;
  const bool by_itself = exit.status.signal == 0 || exit.status.signal == SIGABRT;
  return cause.kind == RootCause::Kind::kWorkerFailed && by_itself && !exit.oom_killed;
}

void Incidents::AddExit(const std::string& host, NodeRank node_rank, const WorkerExited& exit) {
  WorkerFailure failure{host, node_rank, generation_, exit};
  if (exit.status.ok()) {
    if (!first_success_) first_success_ = std::move(failure);
    return;
  }
  const bool victim = IsVictim(exit);
  victims_ += victim;
  // Only the root cause's stderr_tail is shown. The root cause is the first failure that is no
  // victim, else the first failure.
  const bool shown = !std::exchange(failed_, true) || (!victim && !failed_itself_);
  if (!shown) failure.exit.stderr_tail.clear();
  failed_itself_ = failed_itself_ || !victim;
  incidents_.push_back(
      {{RootCause::Kind::kWorkerFailed, std::move(failure), "", {}}, {}, false, victim, false});
}

void Incidents::AddSuspicion(AgentId agent_id, const std::string& host, NodeRank node_rank) {
  if (suspicion_of_.contains(agent_id.value)) return;
  RootCause cause{RootCause::Kind::kNodeLost, {host, node_rank, generation_, {}}, "", {}};
  suspicion_of_[agent_id.value] = incidents_.size();
  incidents_.push_back({std::move(cause), agent_id, true, false, false, true});
  ++suspected_;
}

void Incidents::ClearSuspicion(AgentId agent_id) {
  const auto found = suspicion_of_.find(agent_id.value);
  if (found == suspicion_of_.end()) return;
  const std::size_t place = found->second;
  suspicion_of_.erase(found);
  if (!incidents_[place].suspected) return;
  --suspected_;
  ++cleared_;
  incidents_[place].cleared = true;  // erased later, because thousands may come back at once
  constexpr int kFewCleared = 64;
  if (cleared_ > kFewCleared && cleared_ > static_cast<int>(incidents_.size()) / 2) DropCleared();
}

// Bounds the memory: a generation may run for months while sessions break again and again.
void Incidents::DropCleared() {
  std::erase_if(incidents_, [](const Incident& incident) { return incident.cleared; });
  cleared_ = 0;
  for (std::size_t i = 0; i < incidents_.size(); ++i) {
    const auto found = suspicion_of_.find(incidents_[i].agent_id.value);
    if (incidents_[i].from_suspicion && found != suspicion_of_.end()) found->second = i;
  }
}

void Incidents::AddNode(AgentId agent_id, RootCause::Kind kind, const std::string& host,
                        NodeRank node_rank, const std::string& reason) {
  const auto found = suspicion_of_.find(agent_id.value);
  if (found != suspicion_of_.end() && incidents_[found->second].suspected) {
    Incident& incident = incidents_[found->second];
    incident.suspected = false;
    --suspected_;
    incident.cause.kind = kind;
    incident.cause.reason = reason;
    return;
  }
  RootCause cause{kind, {host, node_rank, generation_, {}}, reason, {}};
  incidents_.push_back({std::move(cause), agent_id, false, false, false});
}

void Incidents::AddHang(RootCause cause) {
  failed_ = failed_itself_ = true;
  incidents_.push_back({std::move(cause), {}, false, false, false});
}

void Incidents::AddFollower(AgentId agent_id, const std::string& host, NodeRank node_rank,
                            const std::string& reason) {
  RootCause cause{RootCause::Kind::kNodeLost, {host, node_rank, generation_, {}}, reason, {}};
  incidents_.push_back({std::move(cause), agent_id, false, true, false});
  ++victims_;
}

bool Incidents::any() const { return static_cast<int>(incidents_.size()) > suspected_ + cleared_; }

bool Incidents::OnlyVictims() const {
  return any() && static_cast<int>(incidents_.size()) == victims_ + cleared_;
}

std::optional<RootCause> Incidents::FindRootCause() const {
  const Incident* first = nullptr;
  const Incident* chosen = nullptr;
  for (const Incident& incident : incidents_) {
    if (incident.suspected || incident.cleared) continue;
    if (first == nullptr) first = &incident;
    if (incident.victim) continue;
    chosen = &incident;
    break;
  }
  if (first == nullptr) return std::nullopt;
  RootCause cause;
  if (chosen == nullptr && first_success_ && OfAWorker(first->cause)) {
    cause = {RootCause::Kind::kWorkerLeftEarly, *first_success_, "", {}};
  } else {
    if (chosen == nullptr) chosen = first;
    cause = chosen->cause;
  }
  for (const Incident& incident : incidents_) {
    if (&incident == chosen || !OfAWorker(incident.cause)) continue;
    if (cause.victims.size() == kMaxVictims) break;
    cause.victims.push_back(incident.cause.failure);
    cause.victims.back().exit.stderr_tail.clear();
  }
  return cause;
}

std::vector<std::string> NewestLines(const std::vector<std::string>& lines, std::size_t max_lines,
                                     std::size_t max_bytes) {
  std::size_t room = max_bytes;
  auto first = lines.end();
  while (first != lines.begin() && static_cast<std::size_t>(lines.end() - first) < max_lines &&
         (first - 1)->size() <= room) {
    --first;
    room -= first->size();
  }
  if (first == lines.end() && !lines.empty()) {
    return {lines.back().substr(lines.back().size() - max_bytes)};
  }
  return {first, lines.end()};
}

bool IsPermanent(const RootCause& cause) {
  const std::string& kind = cause.failure.exit.error_kind;
  return kind == kErrorExec || kind == control::kErrorFolder || IsUnreadableState(cause);
}

bool IsUnreadableState(const RootCause& cause) {
  return cause.kind == RootCause::Kind::kWorkerFailed &&
         cause.failure.exit.error_kind == control::kErrorState;
}

bool MadeByWorker(const RootCause& cause) {
  const WorkerExited& exit = cause.failure.exit;
  if (cause.kind == RootCause::Kind::kHung) return false;  // the agent ended it
  if (!OfAWorker(cause) || IsVictim(exit)) return false;
  switch (exit.status.signal) {
    case SIGKILL:
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
      return exit.oom_killed;
    default:
      return true;
  }
}

bool IsMembershipChange(const RootCause& cause) { return !OfAWorker(cause); }

int ExitCodeOf(const RootCause& cause) {
  if (IsUnreadableState(cause)) return kExitStateUnreadable;
  switch (cause.kind) {
    case RootCause::Kind::kWorkerFailed:
      // A worker that a signal ends went on after this error.
      if (cause.failure.exit.error_kind == control::kErrorFolder &&
          cause.failure.exit.status.signal == 0) {
        return control::kExitFolder;
      }
      return cause.failure.exit.status.ShellCode();
    case RootCause::Kind::kWorkerLeftEarly:
      return cause.victims.empty() ? 1 : cause.victims.front().exit.status.ShellCode();
    case RootCause::Kind::kHung:
      return ExitStatus{.code = 0, .signal = SIGABRT}.ShellCode();
    case RootCause::Kind::kNodeLost:
    case RootCause::Kind::kNodeLeft:
      return kExitUnavailable;
  }
  return kExitUnavailable;
}

std::string Describe(const WorkerFailure& failure, const std::string& why) {
  const WorkerExited& exit = failure.exit;
  if (exit.error_kind == kErrorExec || exit.error_kind == kErrorSpawn) {
    return absl::StrCat("cannot start rank ", exit.rank.value, " on ", failure.host, ": ",
                        exit.error_text);
  }
  std::string text =
      absl::StrCat("rank ", exit.rank.value, " (local rank ", exit.local_rank.value, ", pid ",
                   exit.pid, ") on ", failure.host, ": ", exit.status.Describe());
  if (exit.oom_killed) absl::StrAppend(&text, " by the kernel: out of memory");
  if (exit.step) absl::StrAppend(&text, " after step ", *exit.step);
  if (!exit.error_text.empty()) absl::StrAppend(&text, ": ", exit.error_text);
  if (!why.empty()) {
    absl::StrAppend(&text, ": ", why);
  } else if (IsMismatchOfSizes(exit)) {
    absl::StrAppend(&text, ": it and a peer entered a collective with different sizes");
  }
  return text;
}

std::string Describe(const RootCause& cause) {
  switch (cause.kind) {
    case RootCause::Kind::kWorkerFailed:
      return Describe(cause.failure, cause.reason);
    case RootCause::Kind::kWorkerLeftEarly:
      return absl::StrCat(Describe(cause.failure),
                          ", while its peers still needed it: it left early");
    case RootCause::Kind::kNodeLost:
      return absl::StrCat(cause.failure.host, " was lost: ", cause.reason);
    case RootCause::Kind::kNodeLeft:
      return absl::StrCat(cause.failure.host, " left: ", cause.reason);
    case RootCause::Kind::kHung:
      return absl::StrCat("hung: ", cause.reason);
  }
  return "?";
}

}  // namespace ddprun
