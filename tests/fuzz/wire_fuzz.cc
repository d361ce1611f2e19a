// Any message from the network is translated or refused; a translated message comes back equal from
// the reverse translation.
//
// The first byte of an input chooses the kind of message: 0 from an agent, 1 from the rendezvous, 2
// a guardian's report. The rest are the bytes of the message.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/stubs/logging.h"
#include "rendezvous/wire/record.h"
#include "rendezvous/wire/translate.h"
#include "tests/fuzz/require.h"

namespace ddprun::wire {
namespace {

void CheckRefusal(const absl::Status& status) {
  const std::string text(status.message());
  Require(absl::IsInvalidArgument(status), "a refusal is InvalidArgument", text);
  Require(!text.empty() && text.size() < 256, "a refusal names a field in a line", text);
}

template <class Proto>
Proto ThroughBytes(const Proto& message) {
  Proto parsed;
  Require(parsed.ParseFromString(message.SerializeAsString()), "what we send is a message",
          message.ShortDebugString());
  return parsed;
}

// `Proto`: v1::AgentMessage or v1::RendezvousMessage.
template <class Proto>
void CheckMessage(const std::string& bytes) {
  Proto proto;
  if (!proto.ParseFromString(bytes)) return;  // gRPC refuses it
  const auto first = FromProto(proto);
  if (!first.ok()) return CheckRefusal(first.status());
  const auto second = FromProto(ThroughBytes(ToProto(first->header, first->message)));
  Require(second.ok(), "what was accepted is accepted again", second.status().ToString());
  Require(second->header == first->header, "a header comes back equal", proto.ShortDebugString());
  Require(second->message == first->message, "a message comes back equal",
          proto.ShortDebugString());
}

// Checks the stacks of a StacksTaken. In the other checks they stay packed.
void CheckTree(const std::string& bytes) {
  v1::AgentMessage proto;
  if (!proto.ParseFromString(bytes) || !proto.has_stacks_taken()) return;
  const auto first = UnpackTree(proto.stacks_taken().tree());
  if (!first.ok()) return CheckRefusal(first.status());
  const auto second = UnpackTree(PackTree(*first));
  Require(second.ok() && *second == *first, "a tree comes back equal", proto.ShortDebugString());
}

void CheckReport(const std::string& bytes) {
  v1::GoneReport proto;
  if (!proto.ParseFromString(bytes)) return;
  const absl::StatusOr<Header> first = FromProto(proto);
  if (!first.ok()) return CheckRefusal(first.status());
  const absl::StatusOr<Header> second = FromProto(ThroughBytes(ToGoneReport(*first)));
  Require(second.ok() && *second == *first, "a report comes back equal", proto.ShortDebugString());
}

void CheckRecord(const std::string& bytes) {
  const absl::StatusOr<OwnedRecord> first = DecodeRecord(bytes);
  if (!first.ok()) {
    Require(absl::IsDataLoss(first.status()), "a refused record is DataLoss");
    return;
  }
  const absl::StatusOr<OwnedRecord> second =
      DecodeRecord(EncodeRecord(first->owner, first->record));
  Require(second.ok(), "a record that was read is read again", second.status().ToString());
  Require(second->owner == first->owner && second->record == first->record,
          "a record comes back equal");
}

}  // namespace
}  // namespace ddprun::wire

// Without this, protobuf reports on stderr each string that is not UTF-8, as in most inputs.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 0:
      ddprun::wire::CheckMessage<ddprun::v1::AgentMessage>(bytes);
      ddprun::wire::CheckTree(bytes);
      break;
    case 1:
      ddprun::wire::CheckMessage<ddprun::v1::RendezvousMessage>(bytes);
      break;
    case 2:
      ddprun::wire::CheckReport(bytes);
      break;
    case 3:
      ddprun::wire::CheckRecord(bytes);
      break;
    default:
      break;
  }
  return 0;
}
