// Translates rendezvous/core/messages to and from the messages of proto/ddprun/v1/rendezvous.proto.
//
// Thread-safe: plain functions without state.
#ifndef DDPRUN_RENDEZVOUS_WIRE_TRANSLATE_H_
#define DDPRUN_RENDEZVOUS_WIRE_TRANSLATE_H_

#include "absl/status/statusor.h"
#include "ddprun/v1/rendezvous.pb.h"
#include "rendezvous/core/messages.h"

namespace ddprun::wire {

// Metadata of the call Session: the session waits while this rendezvous stands by.
inline constexpr char kWaitsMetadata[] = "ddprun-waits";
inline constexpr char kWaits[] = "1";

struct FromAgent {
  Header header;
  AgentMessage message;
};

struct FromRendezvous {
  Header header;
  RendezvousMessage message;
};

// Text for people is made valid UTF-8 and cut to its bound. If the stderr tail is too long, its
// newest lines are kept. So a report arrives, whatever a worker printed. The receiver refuses names
// and numbers that are out of bounds.
v1::AgentMessage ToProto(const Header& header, const AgentMessage& message);
v1::GoneReport ToGoneReport(const Header& header);
v1::RendezvousMessage ToProto(const Header& header, const RendezvousMessage& message);
v1::StackTree ToProto(const EncodedStackTree& tree);

// Checks every field against its bounds (limits.h), except the tree in StacksTaken, which stays
// packed. Error: InvalidArgument that names the first field out of bounds, such as
// "NodeSpec.worker_count is 0, expected 1 to 4096".
absl::StatusOr<FromAgent> FromProto(const v1::AgentMessage& message);
absl::StatusOr<Header> FromProto(const v1::GoneReport& report);
absl::StatusOr<FromRendezvous> FromProto(const v1::RendezvousMessage& message);
// Checks sizes and numbers, but not whether the parts fit together: StackTree::Decode() does that.
absl::StatusOr<EncodedStackTree> FromProto(const v1::StackTree& tree);
// The same as bytes (StacksTaken::packed). InvalidArgument: not a serialized tree, or out of
// bounds.
std::string PackTree(const EncodedStackTree& tree);
absl::StatusOr<EncodedStackTree> UnpackTree(const std::string& packed);

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_TRANSLATE_H_
