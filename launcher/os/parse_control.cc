#include "launcher/os/parse_control.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/failed_checkpoints.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxQuotedBytes = 60;
constexpr std::size_t kMaxPhaseBytes = 64;

absl::Status Malformed(std::string line, const char* expected) {
  const bool cut = line.size() > kMaxQuotedBytes;
  if (cut) line.resize(kMaxQuotedBytes);
  return absl::InvalidArgumentError(absl::StrCat("malformed control message \"",
                                                 absl::CEscape(line), cut ? "...\"" : "\"",
                                                 ": expected ", expected));
}

std::string ToText(const control::Line& line) {
  return std::string(line.key).append("=").append(line.value);
}

absl::StatusOr<ControlMessage> ParseCheckpoint(const control::Line& line) {
  const std::size_t space = line.value.find(' ');
  const std::optional<std::int64_t> step = control::ParseNumber(line.value.substr(0, space));
  if (!step || space == std::string_view::npos || space + 1 == line.value.size()) {
    return Malformed(ToText(line), "CHECKPOINT=<step> <path>");
  }
  return CheckpointMsg{*step, std::string(line.value.substr(space + 1))};
}

// What may be shown on a terminal, cut between two characters.
std::string Reason(std::string_view text) {
  if (text.size() > kMaxFailureReasonBytes) {
    std::size_t end = kMaxFailureReasonBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  std::string reason(text);
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return reason;
}

absl::StatusOr<ControlMessage> ParseCheckpointFailed(const control::Line& line) {
  const std::size_t space = line.value.find(' ');
  const std::string_view rest =
      space == std::string_view::npos ? std::string_view() : line.value.substr(space + 1);
  const std::size_t second = rest.find(' ');
  const std::optional<std::int64_t> step = control::ParseNumber(line.value.substr(0, space));
  const std::optional<std::int64_t> failures = control::ParseNumber(rest.substr(0, second));
  if (!step || !failures || *failures < 1 || *failures > kMaxCheckpointFailures) {
    return Malformed(ToText(line), "CHECKPOINT_FAILED=<step> <number, 1 or more> <reason>");
  }
  return CheckpointFailedMsg{
      *step, *failures, second == std::string_view::npos ? "" : Reason(rest.substr(second + 1))};
}

absl::StatusOr<ControlMessage> ParseError(const control::Line& line) {
  const std::size_t space = line.value.find(' ');
  const std::string_view kind = line.value.substr(0, space);
  for (const std::string_view known : {control::kErrorUser, control::kErrorCollective,
                                       control::kErrorBind, control::kErrorCheckpoint}) {
    if (kind != known) continue;
    const std::string_view text =
        space == std::string_view::npos ? std::string_view() : line.value.substr(space + 1);
    return ErrorMsg{std::string(kind), std::string(text)};
  }
  return Malformed(ToText(line), "ERROR=<user|collective|bind|checkpoint> <text>");
}

// nullopt: a key from the future.
absl::StatusOr<std::optional<ControlMessage>> ParseLine(const control::Line& line) {
  const auto malformed = [&line](const char* expected) {
    return Malformed(ToText(line), expected);
  };
  if (line.key.empty()) return Malformed(std::string(line.value), "KEY=VALUE");
  if (line.key == control::kReady) {
    if (line.value != "1") return malformed("READY=1");
    return ReadyMsg{};
  }
  if (line.key == control::kBye) {
    if (line.value != "1") return malformed("BYE=1");
    return ByeMsg{};
  }
  if (line.key == control::kStep) {
    const std::optional<std::int64_t> step = control::ParseNumber(line.value);
    if (!step) return malformed("STEP=<number>, 0 or more");
    return StepMsg{*step};
  }
  if (line.key == control::kSnapshot) {
    const std::optional<std::int64_t> step = control::ParseNumber(line.value);
    if (!step) return malformed("SNAPSHOT=<number>, 0 or more");
    return SnapshotMsg{*step};
  }
  if (line.key == control::kPhase) {
    if (line.value.empty() || line.value.size() > kMaxPhaseBytes) {
      return malformed("PHASE=<name of 1 to 64 bytes>");
    }
    return PhaseMsg{std::string(line.value)};
  }
  if (line.key == control::kStandby) {
    if (line.value != control::kAble && line.value != control::kWaiting) {
      return malformed("STANDBY=<able|waiting>");
    }
    return StandbyMsg{line.value == control::kWaiting};
  }
  if (line.key == control::kCheckpoint) return ParseCheckpoint(line);
  if (line.key == control::kCheckpointFailed) return ParseCheckpointFailed(line);
  if (line.key == control::kError) return ParseError(line);
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<ControlMessage>> ParseControl(std::string_view packet) {
  std::vector<ControlMessage> messages;
  while (const std::optional<control::Line> line = control::NextLine(&packet)) {
    absl::StatusOr<std::optional<ControlMessage>> message = ParseLine(*line);
    if (!message.ok()) return message.status();
    if (message->has_value()) messages.push_back(**std::move(message));
  }
  return messages;
}

}  // namespace ddprun
