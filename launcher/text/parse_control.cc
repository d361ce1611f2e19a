#include "launcher/text/parse_control.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "launcher/text/printable.h"
#include "rendezvous/core/failed_checkpoints.h"
#include "rendezvous/core/limits.h"
#include "worker/contract/control.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxQuotedBytes = 60;

absl::Status Malformed(std::string line, const std::string& expected) {
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

// Cuts between two characters.
std::string Shown(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    std::size_t end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  return Printable(absl::string_view(text.data(), text.size()));
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
  return CheckpointFailedMsg{*step, *failures,
                             second == std::string_view::npos
                                 ? ""
                                 : Shown(rest.substr(second + 1), kMaxFailureReasonBytes)};
}

absl::StatusOr<ControlMessage> ParseSnapshotFailed(const control::Line& line) {
  if (line.value.empty()) return Malformed(ToText(line), "SNAPSHOT_FAILED=<reason>");
  return SnapshotFailedMsg{Shown(line.value, kMaxFailureReasonBytes)};
}

absl::StatusOr<ControlMessage> ParseSnapshot(const control::Line& line) {
  const std::optional<std::int64_t> step = control::ParseNumber(line.value);
  if (!step) return Malformed(ToText(line), "SNAPSHOT=<number>, 0 or more");
  return SnapshotMsg{*step};
}

absl::StatusOr<ControlMessage> ParseSaved(const control::Line& line) {
  const std::size_t space = line.value.find(' ');
  const std::string_view tier = line.value.substr(0, space);
  const std::optional<std::int64_t> time = space == std::string_view::npos
                                               ? std::nullopt
                                               : control::ParseNumber(line.value.substr(space + 1));
  const bool durable = tier == control::kDurable;
  if ((!durable && tier != control::kMemory) || !time || *time > kMaxSaveTime) {
    return Malformed(ToText(line), "SAVED=<durable|memory> <microseconds>");
  }
  return SavedMsg{durable, *time};
}

absl::StatusOr<ControlMessage> ParseCheckpointDamaged(const control::Line& line) {
  const std::size_t space = line.value.find(' ');
  const std::optional<std::int64_t> step = control::ParseNumber(line.value.substr(0, space));
  if (!step) return Malformed(ToText(line), "CHECKPOINT_DAMAGED=<step> <text>");
  return CheckpointDamagedMsg{*step,
                              space == std::string_view::npos
                                  ? ""
                                  : Shown(line.value.substr(space + 1), kMaxFailureReasonBytes)};
}

// Removes the text up to the next space, and the space, from the front of `rest`.
std::string_view NextWord(std::string_view* rest) {
  const std::size_t space = rest->find(' ');
  const std::string_view word = rest->substr(0, space);
  rest->remove_prefix(space == std::string_view::npos ? rest->size() : space + 1);
  return word;
}

absl::StatusOr<ControlMessage> ParseStraggler(const control::Line& line) {
  std::string_view rest = line.value;
  StragglerMsg message;
  const std::optional<std::int64_t> rank = control::ParseNumber(NextWord(&rest));
  message.ended = line.value.find(' ') == std::string_view::npos;
  const std::optional<std::int64_t> time = control::ParseNumber(NextWord(&rest));
  const std::optional<std::int64_t> others = control::ParseNumber(NextWord(&rest));
  if (!rank || (!message.ended && (!time || !others || *others < 1 || rest.empty()))) {
    return Malformed(ToText(line), "STRAGGLER=<rank> [<us> <us of others, 1 or more> <host>]");
  }
  message.rank = *rank;
  if (message.ended) return message;
  message.time = *time;
  message.others = *others;
  message.host = Shown(rest, kMaxHostBytes);
  return message;
}

absl::StatusOr<ControlMessage> ParseError(const control::Line& line) {
  const std::size_t space = line.value.find(' ');
  const std::string_view kind = line.value.substr(0, space);
  for (const std::string_view known :
       {control::kErrorUser, control::kErrorCollective, control::kErrorBind,
        control::kErrorCheckpoint, control::kErrorFolder, control::kErrorState}) {
    if (kind != known) continue;
    const std::string_view text =
        space == std::string_view::npos ? std::string_view() : line.value.substr(space + 1);
    return ErrorMsg{std::string(kind), std::string(text)};
  }
  return Malformed(ToText(line), "ERROR=<user|collective|bind|checkpoint|folder|state> <text>");
}

absl::StatusOr<ControlMessage> ParseForkServer(const control::Line& line) {
  if (line.value == control::kForkServerReady) return ForkServerMsg{};
  std::string_view rest = line.value;
  if (NextWord(&rest) != control::kUnfit || rest.empty()) {
    return Malformed(ToText(line), "FORKSERVER=<ready|unfit why>");
  }
  return ForkServerMsg{Shown(rest, kMaxFailureReasonBytes)};
}

absl::StatusOr<ControlMessage> ParseForked(const control::Line& line) {
  const std::optional<std::int64_t> number = control::ParseNumber(line.value);
  if (!number) return Malformed(ToText(line), "FORKED=<number>, 0 or more");
  return ForkedMsg{*number};
}

// The message of a key whose only value is 1; nullopt: it is none of these.
std::optional<ControlMessage> WithoutValue(std::string_view key) {
  if (key == control::kReady) return ReadyMsg{};
  if (key == control::kBye) return ByeMsg{};
  if (key == control::kSecret) return SecretMsg{};
  if (key == control::kProgress) return ProgressMsg{};
  if (key == control::kStays) return StaysMsg{};
  if (key == control::kCompares) return ComparesMsg{};
  return std::nullopt;
}

// nullopt: a key of a newer version.
absl::StatusOr<std::optional<ControlMessage>> ParseLine(const control::Line& line) {
  const auto malformed = [&line](const std::string& expected) {
    return Malformed(ToText(line), expected);
  };
  if (line.key.empty()) return Malformed(std::string(line.value), "KEY=VALUE");
  if (const auto message = WithoutValue(line.key)) {
    if (line.value != "1") return malformed(absl::StrCat(std::string(line.key), "=1"));
    return message;
  }
  if (line.key == control::kStep) {
    const std::optional<std::int64_t> step = control::ParseNumber(line.value);
    if (!step) return malformed("STEP=<number>, 0 or more");
    return StepMsg{*step};
  }
  if (line.key == control::kSnapshot) return ParseSnapshot(line);
  if (line.key == control::kSaved) return ParseSaved(line);
  if (line.key == control::kPhase) {
    if (line.value.empty() || line.value.size() > kMaxPhaseBytes) {
      return malformed(absl::StrCat("PHASE=<name of 1 to ", kMaxPhaseBytes, " bytes>"));
    }
    return PhaseMsg{std::string(line.value)};
  }
  if (line.key == control::kTells || line.key == control::kSaves) {
    if (line.value != "0" && line.value != "1") {
      return malformed(absl::StrCat(std::string(line.key), "=<0|1>"));
    }
    if (line.key == control::kTells) return TellsMsg{line.value == "1"};
    return SavesMsg{line.value == "1"};
  }
  if (line.key == control::kStandby) {
    if (line.value != control::kAble && line.value != control::kWaiting) {
      return malformed("STANDBY=<able|waiting>");
    }
    return StandbyMsg{line.value == control::kWaiting};
  }
  if (line.key == control::kStore) {
    if (line.value.empty()) return malformed("STORE=<host>:<port>");
    return StoreElsewhereMsg{Shown(line.value, kMaxHostBytes)};
  }
  if (line.key == control::kForkServer) return ParseForkServer(line);
  if (line.key == control::kForked) return ParseForked(line);
  if (line.key == control::kCheckpoint) return ParseCheckpoint(line);
  if (line.key == control::kCheckpointFailed) return ParseCheckpointFailed(line);
  if (line.key == control::kSnapshotFailed) return ParseSnapshotFailed(line);
  if (line.key == control::kCheckpointDamaged) return ParseCheckpointDamaged(line);
  if (line.key == control::kStraggler) return ParseStraggler(line);
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
