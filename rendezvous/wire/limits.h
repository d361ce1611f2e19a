// Bounds of messages between agents and the rendezvous. rendezvous/core/limits.h has the bounds of
// a job's settings. proto/ddprun/v1/rendezvous.proto states the bounds of every field. The receiver
// refuses other values.
#ifndef DDPRUN_RENDEZVOUS_WIRE_LIMITS_H_
#define DDPRUN_RENDEZVOUS_WIRE_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rendezvous/core/failed_checkpoints.h"
#include "rendezvous/core/limits.h"
#include "worker/contract/progress.h"

namespace ddprun::wire {

using ddprun::kMaxHostBytes;
using ddprun::kMaxJobBytes;

inline constexpr int kMaxMessageBytes = 1 << 20;
inline constexpr std::size_t kMaxTextBytes = 4096;
inline constexpr std::size_t kSecretBytes = 32;
inline constexpr int kMaxPhases = 32;
inline constexpr std::size_t kMaxWaitsForBytes = 512;
// Of a collective's operation and group.
inline constexpr std::size_t kMaxOperationBytes = kProgressNameBytes;
inline constexpr std::size_t kMaxTailLines = 64;
inline constexpr std::size_t kMaxTailBytes = 16384;  // of all lines together

// So large because all agents of a benchmark share one address.
inline constexpr std::size_t kMaxStreamsPerAddress = 20000;
// From the start of a session, or from the takeover for a session that waited at a standby.
inline constexpr std::chrono::seconds kMaxTimeToJoin{10};

inline constexpr std::int64_t kMaxWorldSize = kMaxNodes * kMaxWorkersPerNode;
inline constexpr std::int64_t kMaxSignal = 64;
// The maximum of a whole job: kMaxAgents agents, each with its maximum.
inline constexpr std::int64_t kMaxFailedCheckpoints =
    kMaxCheckpointFailures * static_cast<std::int64_t>(FailureTally::kMaxAgents);
// No job forms this often. Without the bound, a peer could invent a number at the end of the range,
// and no generation could follow it.
inline constexpr std::int64_t kMaxGeneration = 1'000'000'000;

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_LIMITS_H_
