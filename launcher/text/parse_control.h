// A worker's messages on the control socket (worker/contract/control.h), as typed values.
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
  std::int64_t step = 0;  // the finished step
};

struct CheckpointMsg {
  std::int64_t step = 0;
  std::string path;  // durable
};

// A checkpoint could not be saved; the worker continues.
struct CheckpointFailedMsg {
  std::int64_t step = 0;
  std::int64_t failures = 0;  // the worker's count so far: 1 to kMaxCheckpointFailures
  std::string reason;         // no control characters, at most kMaxFailureReasonBytes; may be empty
};

// A checkpoint on the disk is damaged, and the worker skipped it.
struct CheckpointDamagedMsg {
  std::int64_t step = 0;
  std::string text;  // the file and the reason; as CheckpointFailedMsg::reason
};

struct SnapshotMsg {
  std::int64_t step = 0;  // complete in memory
};

// A snapshot could not be made; the worker continues.
struct SnapshotFailedMsg {
  std::string reason;  // as CheckpointFailedMsg::reason
};

// The duration of saving a checkpoint or a snapshot.
struct SavedMsg {
  bool durable = false;   // true: checkpoint; false: snapshot
  std::int64_t time = 0;  // µs, at most kMaxSaveTime
};

struct PhaseMsg {
  std::string name;
};

struct TellsMsg {
  bool tells = false;  // the worker will report its steps
};

struct SavesMsg {
  bool saves = false;  // the worker can make a checkpoint
};

// A rank of the job, on any node, keeps the other ranks waiting, or no longer does so.
struct StragglerMsg {
  std::int64_t rank = 0;
  bool ended = false;       // the rank no longer keeps others waiting; if false, the members below
                            // are set
  std::int64_t time = 0;    // µs of its own computing in each step
  std::int64_t others = 0;  // µs of the other ranks' computing; more than 0
  std::string host;         // no control characters, at most kMaxHostBytes
};

// A process looks for torch's store elsewhere than on MASTER_PORT.
struct StoreElsewhereMsg {
  std::string where;  // host:port; no control characters, 1 to kMaxHostBytes
};

struct ErrorMsg {
  std::string kind;  // one of control::kError...
  std::string text;  // may be empty
};

struct ByeMsg {};  // the worker is about to exit 0

struct SecretMsg {};  // the worker asks for the generation's secret

struct ProgressMsg {};  // the worker asks for the shared memory for its progress

struct StandbyMsg {
  // True: it waits, as a standby or after it has left its generation. False: its program can wait
  // as a standby.
  bool waiting = false;
};

struct StaysMsg {};  // the worker can leave this generation and wait for the next

// Ranks are compared: from now on StragglerMsg reports ranks that keep the others waiting.
struct ComparesMsg {};

// From the fork server.
struct ForkServerMsg {
  std::string unfit;  // why it must not be forked; "": it is ready
};

struct ForkedMsg {
  std::int64_t number = 0;  // number of the FORK message; the forked process waits
};

using ControlMessage =
    std::variant<ReadyMsg, StepMsg, CheckpointMsg, CheckpointFailedMsg, CheckpointDamagedMsg,
                 SnapshotMsg, SnapshotFailedMsg, SavedMsg, PhaseMsg, TellsMsg, SavesMsg,
                 StragglerMsg, ComparesMsg, ErrorMsg, ByeMsg, SecretMsg, ProgressMsg, StandbyMsg,
                 StaysMsg, StoreElsewhereMsg, ForkServerMsg, ForkedMsg>;

// The messages of one packet, in order. Unknown keys are skipped, so that a newer worker library
// works with an older agent. InvalidArgument: the packet has a line without KEY=, or a value that
// its key does not allow; the caller must then ignore the whole packet.
absl::StatusOr<std::vector<ControlMessage>> ParseControl(std::string_view packet);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_PARSE_CONTROL_H_
