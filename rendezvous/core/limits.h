// Bounds and defaults of settings. The parser of job files, its schema, the flags, the wire format
// and the documentation take them from here. worker/contract/limits.h has the limits shared with
// workers. Constants only.
#ifndef DDPRUN_RENDEZVOUS_CORE_LIMITS_H_
#define DDPRUN_RENDEZVOUS_CORE_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "worker/contract/limits.h"
#include "worker/contract/progress.h"

namespace ddprun {

// ---- bounds ----

inline constexpr std::int64_t kMaxNodes = 65'536;
inline constexpr std::int64_t kMaxWorkersPerNode = 4'096;
inline constexpr std::int64_t kMaxRestarts = 1'000'000;
inline constexpr std::int64_t kMaxExitCode = 255;
inline constexpr std::int64_t kMaxNeverRestartOn = 256;  // exit codes
inline constexpr std::chrono::milliseconds kMinHeartbeat{10};
inline constexpr std::chrono::milliseconds kMaxHeartbeat{60'000};
// A lease has at least this many heartbeats: with fewer, one late heartbeat would lose a node.
inline constexpr int kHeartbeatsPerLease = 3;
inline constexpr std::chrono::milliseconds kMinLease = kHeartbeatsPerLease * kMinHeartbeat;
inline constexpr std::chrono::milliseconds kMaxLease{3'600'000};

inline constexpr std::size_t kMaxJobBytes = 256;
inline constexpr std::size_t kMaxHostBytes = 255;     // like DNS; also of an address
inline constexpr std::size_t kMaxProgramBytes = 255;  // a file's name; also of a role
inline constexpr std::size_t kMaxComparedArguments = 256;
inline constexpr std::size_t kMaxErrorKindBytes = 64;
inline constexpr std::size_t kMaxPhaseBytes = kProgressNameBytes;

// For a hang: lines of the verdict, hosts that sent no stacks, frames of the worker that is the
// root cause.
inline constexpr std::size_t kMaxVerdictLines = 16;
inline constexpr std::size_t kMaxMissingHosts = 64;
inline constexpr std::size_t kMaxCauseFrames = 5;
inline constexpr std::size_t kMaxCauseNameBytes = 256;

// For a report: root causes of earlier generations, and victims of one cause.
inline constexpr std::size_t kMaxEarlierCauses = 64;
inline constexpr std::size_t kMaxVictims = 64;
inline constexpr std::size_t kMaxEarlierTailBytes = 1024;  // stderr_tail of each earlier root cause

// ---- defaults ----

inline constexpr int kDefaultPort = 29'400;        // of a rendezvous; torchrun's default
inline constexpr int kDefaultMasterPort = 29'500;  // in static mode; torchrun's default
inline constexpr std::chrono::milliseconds kDefaultJoinTimeout = std::chrono::minutes(10);
inline constexpr std::chrono::milliseconds kDefaultLastCall = std::chrono::seconds(5);
inline constexpr std::chrono::milliseconds kDefaultConnectTimeout = std::chrono::seconds(60);
inline constexpr std::chrono::milliseconds kDefaultHeartbeat = std::chrono::seconds(1);
inline constexpr std::chrono::milliseconds kDefaultLease = std::chrono::seconds(3);
// With several rendezvous, a change of the leader must take less time than a lease.
inline constexpr std::chrono::milliseconds kHeartbeatOfSeveral{500};
inline constexpr std::chrono::milliseconds kMinLeaseOfSeveral = std::chrono::seconds(3);
inline constexpr std::chrono::milliseconds kDefaultDaemonGrace = std::chrono::minutes(5);
inline constexpr std::chrono::milliseconds kDefaultStopGrace = std::chrono::seconds(10);
inline constexpr std::chrono::milliseconds kDefaultSaveTimeout = std::chrono::seconds(60);
// An agent reports details of its workers only once none of them has moved for 1 s. A hang timeout
// must be longer.
inline constexpr std::chrono::milliseconds kShortestHangTimeout = std::chrono::seconds(2);
inline constexpr std::chrono::milliseconds kDefaultHangStartupTimeout = std::chrono::minutes(10);
// How long a worker that stays may take to leave its generation.
inline constexpr std::chrono::milliseconds kDefaultInPlaceTimeout = std::chrono::seconds(2);
// How long the standbys of a new node may load the program. After this time the rendezvous takes
// the node in anyway.
inline constexpr std::chrono::milliseconds kStandbysLimit = std::chrono::seconds(60);
inline constexpr std::chrono::milliseconds kDefaultAnswerTimeout = std::chrono::seconds(10);
// Defaults under Slurm. Slurm kills all processes 30 s after its SIGTERM (the default of KillWait).
// The checkpoint and the workers' end must fit into that time.
inline constexpr std::chrono::milliseconds kSlurmSaveTimeout = std::chrono::seconds(20);
inline constexpr std::chrono::milliseconds kSlurmStopGrace = std::chrono::seconds(5);
inline constexpr std::chrono::milliseconds kDefaultQuarantineWindow = std::chrono::hours(1);
inline constexpr int kDefaultHangQuarantine = 2;
inline constexpr int kDefaultCertificateDays = 365;

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_LIMITS_H_
