// A worker's messages on the control socket (worker/contract/control.h), as typed values.
//
// Pure: a packet goes in, messages or an error come out. Any thread.
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

// The checkpoint of this step was not written, and the worker goes on.
struct CheckpointFailedMsg {
  std::int64_t step = 0;
  std::int64_t failures = 0;  // the worker's count so far: 1 to kMaxCheckpointFailures
  std::string reason;         // no control characters, at most kMaxFailureReasonBytes; may be empty
};

// The checkpoint of this step is damaged and is skipped.
struct CheckpointDamagedMsg {
  std::int64_t step = 0;
  std::string text;  // the file and the reason; limits of CheckpointFailedMsg::reason
};

struct SnapshotMsg {
  std::int64_t step = 0;  // whole, in memory
};

// The duration of saving a checkpoint or snapshot.
struct SavedMsg {
  bool durable = false;   // false: in memory
  std::int64_t time = 0;  // µs, at most kMaxSaveTime
};

struct PhaseMsg {
  std::string name;
};

struct TellsMsg {
  bool tells = false;  // it announces steps
};

// A rank of any node keeps the others of the job waiting, or no longer does.
struct StragglerMsg {
  std::int64_t rank = 0;
  bool ended = false;       // false: the fields below are set
  std::int64_t time = 0;    // µs that it computes by itself in each step
  std::int64_t others = 0;  // the same of the other ranks; more than 0
  std::string host;         // no control characters, at most kMaxHostBytes
};

// A process looks for torch's store at an address other than MASTER_PORT.
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
  bool waiting = false;  // true: it waits as a standby, or has left its generation; false: it could
                         // be a standby
};

struct StaysMsg {};  // it can leave this generation and wait for the next one

// From the fork server.
struct ForkServerMsg {
  std::string unfit;  // why it must not be forked; "": it is ready
};

struct ForkedMsg {
  std::int64_t number = 0;  // of its FORK request; the process waits
};

using ControlMessage =
    std::variant<ReadyMsg, StepMsg, CheckpointMsg, CheckpointFailedMsg, CheckpointDamagedMsg,
                 SnapshotMsg, SavedMsg, PhaseMsg, TellsMsg, StragglerMsg, ErrorMsg, ByeMsg,
                 SecretMsg, StandbyMsg, StaysMsg, StoreElsewhereMsg, ForkServerMsg, ForkedMsg>;

// The messages of one packet, in order. Skips unknown keys, so that a newer worker library can talk
// to an older agent. InvalidArgument: the packet has a line without KEY=, or a value that its key
// does not allow; then no message of the packet counts.
absl::StatusOr<std::vector<ControlMessage>> ParseControl(std::string_view packet);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_PARSE_CONTROL_H_
