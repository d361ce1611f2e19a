// Limits and defaults that workers, agents and the rendezvous share. rendezvous/core/limits.h has
// the others. The Python module repeats some of these constants;
// tests/unit/launcher/config/facts_test.cc checks that they are equal.
#ifndef DDPRUN_WORKER_CONTRACT_LIMITS_H_
#define DDPRUN_WORKER_CONTRACT_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddprun {

inline constexpr std::int64_t kMaxPort = 65'535;
inline constexpr std::chrono::milliseconds kMaxTimeout = std::chrono::hours(24 * 366);

// How long a worker tries again to load a state that it cannot read.
inline constexpr std::chrono::milliseconds kDefaultStateTimeout = std::chrono::minutes(2);

// The owner file of a checkpoint folder (checkpoint_owner.h).
inline constexpr std::size_t kOwnerFileBytes = 4096;  // most bytes that are read
// How often the owner touches the file.
inline constexpr std::chrono::milliseconds kOwnerRefresh{10'000};
// After this silence of the owner another training may take the folder.
inline constexpr std::chrono::milliseconds kOwnerSilence{30'000};
// How often a waiting process looks at the file.
inline constexpr std::chrono::milliseconds kOwnerLook{500};
// Longest wait for the lock of the file.
inline constexpr std::chrono::milliseconds kOwnerLock{10'000};

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_LIMITS_H_
