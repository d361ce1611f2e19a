// What a worker says over the control socket (worker/contract/control.h), as typed values.
//
// Pure: a packet in, messages or an error out; any thread.
#ifndef DDPRUN_LAUNCHER_TEXT_PARSE_CONTROL_H_
#define DDPRUN_LAUNCHER_TEXT_PARSE_CONTROL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace ddprun {

inline constexpr std::int64_t kMaxSaveTime = 1'000'000LL * 60 * 60 * 24 * 365;  // µs: a year

struct ReadyMsg {};  // the process group is up

struct StepMsg {
  std::int64_t step = 0;  // finished
};

struct CheckpointMsg {
  std::int64_t step = 0;
  std::string path;  // durable
};

// That one is not on the disk, and the worker goes on.
struct CheckpointFailedMsg {
  std::int64_t step = 0;
  std::int64_t failures = 0;  // so far, as the worker counts them: 1 to kMaxCheckpointFailures
  std::string reason;         // no control characters, at most kMaxFailureReasonBytes; may be empty
};

// That one is on the disk and not whole: it is passed over.
struct CheckpointDamagedMsg {
  std::int64_t step = 0;
  std::string text;  // which file, and why; as CheckpointFailedMsg::reason
};

struct SnapshotMsg {
  std::int64_t step = 0;  // whole, in memory
};

// How long a checkpoint, or a snapshot, took.
struct SavedMsg {
  bool durable = false;   // else in memory
  std::int64_t time = 0;  // µs, at most kMaxSaveTime
};

struct PhaseMsg {
  std::string name;
};

struct TellsMsg {
  bool tells = false;  // it will tell its steps
};

// A rank of the job, of any node, keeps the others waiting; or no longer.
struct StragglerMsg {
  std::int64_t rank = 0;
  bool ended = false;       // else all that follows is set
  std::int64_t time = 0;    // µs of each step that it computes on its own
  std::int64_t others = 0;  // µs that others do; more than 0
  std::string host;         // no control characters, at most kMaxHostBytes
};

// A process looks for torch's store elsewhere than on MASTER_PORT.
struct StoreElsewhereMsg {
  std::string where;  // host:port; no control characters, 1 to kMaxHostBytes
};

struct ErrorMsg {
  std::string kind;  // one of the control::kErrors
  std::string text;  // may be empty
};

struct ByeMsg {};  // about to exit 0

struct SecretMsg {};  // asks for the generation's secret

struct StandbyMsg {
  bool waiting = false;  // as a standby, or after it has left; else: it could be a standby
};

struct StaysMsg {};  // it can leave this generation, and wait for the next one

// Ranks are compared: from now on a rank that keeps the others waiting is told.
struct ComparesMsg {};

// Of the fork server.
struct ForkServerMsg {
  std::string unfit;  // why it must not be forked; "": it is ready
};

struct ForkedMsg {
  std::int64_t number = 0;  // of the FORK that it was made for; it waits
};

using ControlMessage =
    std::variant<ReadyMsg, StepMsg, CheckpointMsg, CheckpointFailedMsg, CheckpointDamagedMsg,
                 SnapshotMsg, SavedMsg, PhaseMsg, TellsMsg, StragglerMsg, ComparesMsg, ErrorMsg,
                 ByeMsg, SecretMsg, StandbyMsg, StaysMsg, StoreElsewhereMsg, ForkServerMsg,
                 ForkedMsg>;

// The messages of one packet, in order. A key that this version does not know is skipped, so that a
// newer worker library can talk to an older agent. InvalidArgument when the packet has a line
// without KEY=, or a value that its key does not allow; nothing of such a packet is to be used.
absl::StatusOr<std::vector<ControlMessage>> ParseControl(std::string_view packet);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_PARSE_CONTROL_H_
