// Any packet on the control socket is parsed or refused; a parsed packet can be written again.
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "launcher/text/parse_control.h"
#include "tests/fuzz/require.h"

namespace ddprun {
namespace {

struct ToPacket {
  std::string operator()(const ReadyMsg&) const { return "READY=1"; }
  std::string operator()(const StepMsg& m) const { return absl::StrCat("STEP=", m.step); }
  std::string operator()(const CheckpointMsg& m) const {
    return absl::StrCat("CHECKPOINT=", m.step, " ", m.path);
  }
  std::string operator()(const CheckpointFailedMsg& m) const {
    return absl::StrCat("CHECKPOINT_FAILED=", m.step, " ", m.failures, m.reason.empty() ? "" : " ",
                        m.reason);
  }
  std::string operator()(const CheckpointDamagedMsg& m) const {
    return absl::StrCat("CHECKPOINT_DAMAGED=", m.step, m.text.empty() ? "" : " ", m.text);
  }
  std::string operator()(const SnapshotMsg& m) const {
    return "SNAPSHOT=" + std::to_string(m.step);
  }
  std::string operator()(const SnapshotFailedMsg& m) const { return "SNAPSHOT_FAILED=" + m.reason; }
  std::string operator()(const SavedMsg& m) const {
    return absl::StrCat("SAVED=", m.durable ? "durable " : "memory ", m.time);
  }
  std::string operator()(const PhaseMsg& m) const { return "PHASE=" + m.name; }
  std::string operator()(const TellsMsg& m) const { return m.tells ? "TELLS=1" : "TELLS=0"; }
  std::string operator()(const SavesMsg& m) const { return m.saves ? "SAVES=1" : "SAVES=0"; }
  std::string operator()(const StragglerMsg& m) const {
    if (m.ended) return absl::StrCat("STRAGGLER=", m.rank);
    return absl::StrCat("STRAGGLER=", m.rank, " ", m.time, " ", m.others, " ", m.host);
  }
  std::string operator()(const ComparesMsg&) const { return "COMPARES=1"; }
  std::string operator()(const ErrorMsg& m) const {
    return absl::StrCat("ERROR=", m.kind, m.text.empty() ? "" : " ", m.text);
  }
  std::string operator()(const ByeMsg&) const { return "BYE=1"; }
  std::string operator()(const StoreElsewhereMsg& m) const { return "STORE=" + m.where; }
  std::string operator()(const SecretMsg&) const { return "SECRET=1"; }
  std::string operator()(const ProgressMsg&) const { return "PROGRESS=1"; }
  std::string operator()(const StaysMsg&) const { return "STAYS=1"; }
  std::string operator()(const StandbyMsg& m) const {
    return m.waiting ? "STANDBY=waiting" : "STANDBY=able";
  }
  std::string operator()(const ForkServerMsg& m) const {
    return m.unfit.empty() ? "FORKSERVER=ready" : "FORKSERVER=unfit " + m.unfit;
  }
  std::string operator()(const ForkedMsg& m) const { return absl::StrCat("FORKED=", m.number); }
};

std::string Packet(const std::vector<ControlMessage>& messages) {
  std::string packet;
  for (const ControlMessage& message : messages) {
    packet += std::visit(ToPacket{}, message);
    packet += '\n';
  }
  return packet;
}

void Check(const std::string& packet) {
  const absl::StatusOr<std::vector<ControlMessage>> messages = ParseControl(packet);
  if (!messages.ok()) {
    const std::string error(messages.status().message());
    Require(absl::IsInvalidArgument(messages.status()), "a refusal is InvalidArgument", error);
    Require(error.size() < 512, "a refusal is short", error);
    for (const char c : error) {
      Require(std::isprint(static_cast<unsigned char>(c)) != 0, "a refusal is one line of text",
              error);
    }
    return;
  }
  const std::string said = Packet(*messages);
  const absl::StatusOr<std::vector<ControlMessage>> again = ParseControl(said);
  Require(again.ok(), "what was understood is understood again", said);
  Require(again->size() == messages->size(), "no message is lost", said);
  Require(Packet(*again) == said, "messages come back equal", said);
}

}  // namespace
}  // namespace ddprun

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::Check(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
