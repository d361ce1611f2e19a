// Limits and defaults that workers, agents and the rendezvous share; rendezvous/core/limits.h has
// the others. The Python module repeats some of them: tests/unit/launcher/config/facts_test.cc
// compares. Constants only.
#ifndef DDPRUN_WORKER_CONTRACT_LIMITS_H_
#define DDPRUN_WORKER_CONTRACT_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddprun {

inline constexpr std::int64_t kMaxPort = 65'535;
inline constexpr std::chrono::milliseconds kMaxTimeout = std::chrono::hours(24 * 366);

// How long a state that cannot be read is tried again.
inline constexpr std::chrono::milliseconds kDefaultStateTimeout = std::chrono::minutes(2);

// Of the owner file of a checkpoint folder (checkpoint_owner.h).
inline constexpr std::size_t kOwnerFileBytes = 4096;               // that are read
inline constexpr std::chrono::milliseconds kOwnerRefresh{10'000};  // how often the owner is heard
inline constexpr std::chrono::milliseconds kOwnerSilence{30'000};  // then another run may take it
inline constexpr std::chrono::milliseconds kOwnerLook{500};        // how often who waits looks
inline constexpr std::chrono::milliseconds kOwnerLock{10'000};     // for the lock of the file

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_LIMITS_H_
