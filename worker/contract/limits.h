// Limits and defaults shared by workers, agents and the rendezvous; rendezvous/core/limits.h has
// the others. The Python module repeats some of them, and tests/unit/launcher/config/facts_test.cc
// compares them. Constants only.
#ifndef DDPRUN_WORKER_CONTRACT_LIMITS_H_
#define DDPRUN_WORKER_CONTRACT_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddprun {

inline constexpr std::int64_t kMaxPort = 65'535;
inline constexpr std::chrono::milliseconds kMaxTimeout = std::chrono::hours(24 * 366);

// How long an unreadable state is retried.
inline constexpr std::chrono::milliseconds kDefaultStateTimeout = std::chrono::minutes(2);

// For the owner file of a checkpoint folder (checkpoint_owner.h).
inline constexpr std::size_t kOwnerFileBytes = 4096;               // read at most
inline constexpr std::chrono::milliseconds kOwnerRefresh{10'000};  // of the owner's signs of life
inline constexpr std::chrono::milliseconds kOwnerSilence{30'000};  // silence that frees the folder
inline constexpr std::chrono::milliseconds kOwnerLook{500};        // between looks of a waiter
inline constexpr std::chrono::milliseconds kOwnerLock{10'000};     // wait for the lock of the file

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_LIMITS_H_
