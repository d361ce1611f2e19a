// Bounds of what travels between agents and the rendezvous, beside those of a job's settings
// (rendezvous/core/limits.h); proto/ddprun/v1/rendezvous.proto states them to its readers. Whoever
// receives more refuses it.
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
// Of a collective; its group too.
inline constexpr std::size_t kMaxOperationBytes = kProgressNameBytes;
inline constexpr std::size_t kMaxTailLines = 64;
inline constexpr std::size_t kMaxTailBytes = 16384;  // of all lines together

inline constexpr std::size_t kMaxStreamsPerAddress = 20000;  // a bench's agents share one
inline constexpr std::chrono::seconds kMaxTimeToJoin{10};    // from a session's begin

inline constexpr std::int64_t kMaxWorldSize = kMaxNodes * kMaxWorkersPerNode;
inline constexpr std::int64_t kMaxSignal = 64;
// Of a job: what so many agents can tell of.
inline constexpr std::int64_t kMaxFailedCheckpoints =
    kMaxCheckpointFailures * static_cast<std::int64_t>(FailureTally::kMaxAgents);
// Each forming takes one number: no job gets here, but one number that is made up would use up all.
inline constexpr std::int64_t kMaxGeneration = 1'000'000'000;

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_LIMITS_H_
