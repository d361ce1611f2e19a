// The messages between a worker and its agent on the control socket.
//
// DDPRUN_CONTROL_SOCKET names a Unix socket of type SOCK_SEQPACKET. One message is one packet of
// `KEY=VALUE` lines, so that ten lines of Python can speak it:
//
//     s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
//     s.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
//     s.send(b"STEP=17")
//
// Everything here is optional: a worker that never connects is launched and supervised too. The
// agent takes the sender's identity from SO_PEERCRED, never from a message.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_CONTROL_H_
#define DDPRUN_WORKER_CONTRACT_CONTROL_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::control {

// The kernel cuts a longer packet to this size, and the agent refuses it.
inline constexpr std::size_t kMaxPacketBytes = 8192;

// Worker → agent.
inline constexpr char kReady[] = "READY";            // READY=1: the process group is up
inline constexpr char kStep[] = "STEP";              // STEP=n: training step n is finished
inline constexpr char kCheckpoint[] = "CHECKPOINT";  // CHECKPOINT=step path: durable on disk
// CHECKPOINT_FAILED=step count reason: that checkpoint is not on disk, training continues. `count`:
// such failures of this process so far, so that the sum survives a lost message.
inline constexpr char kCheckpointFailed[] = "CHECKPOINT_FAILED";
// CHECKPOINT_DAMAGED=step text: that checkpoint exists but is damaged; an older one is tried.
inline constexpr char kCheckpointDamaged[] = "CHECKPOINT_DAMAGED";
inline constexpr char kSnapshot[] = "SNAPSHOT";  // SNAPSHOT=step: whole, in DDPRUN_SNAPSHOT_DIR
// SNAPSHOT_FAILED=reason: a snapshot could not be made; training continues.
inline constexpr char kSnapshotFailed[] = "SNAPSHOT_FAILED";
// SAVED=tier time: `time` µs passed from the copy of the state until it was whole in that tier.
// Sent after CHECKPOINT (`tier`: durable) or SNAPSHOT (memory).
inline constexpr char kSaved[] = "SAVED";
inline constexpr char kDurable[] = "durable";
inline constexpr char kMemory[] = "memory";
inline constexpr char kPhase[] = "PHASE";  // PHASE=name: what the worker is doing
// TELLS=1: this program will report its steps. From now on it is judged for hangs, even before its
// first step. TELLS=0: it will not report them after all.
inline constexpr char kTells[] = "TELLS";
// SAVES=0: this worker cannot make a checkpoint, so SAVE=1 is of no use to it; SAVES=1: it can.
inline constexpr char kSaves[] = "SAVES";
// STORE=host:port: this process looks for torch's store there, and not at MASTER_PORT, where an
// agent serves it. Any process of the job may send it.
inline constexpr char kStore[] = "STORE";
// STRAGGLER=rank time others host: that rank keeps the others waiting. In each step it takes `time`
// µs until its first gradients are ready, while other ranks take `others` µs. Repeated every so
// many steps. STRAGGLER=rank: the rank is no longer a straggler.
inline constexpr char kStraggler[] = "STRAGGLER";
// COMPARES=1, from rank 0: this worker compares the ranks' step times, and sends STRAGGLER if a
// rank keeps the others waiting.
inline constexpr char kCompares[] = "COMPARES";
inline constexpr char kError[] = "ERROR";  // ERROR=kind text, just before it exits
inline constexpr char kBye[] = "BYE";      // BYE=1: about to exit 0
// SECRET=1: asks for the secret of this generation. The agent answers at once: SECRET=<64 hex
// digits>, or an empty value if there is none.
inline constexpr char kSecret[] = "SECRET";
// STANDBY=able: if started with DDPRUN_STANDBY=1, this program would wait for GO=1.
// STANDBY=waiting: it was started so and waits, or it is a worker that has left its generation.
inline constexpr char kStandby[] = "STANDBY";
inline constexpr char kAble[] = "able";
inline constexpr char kWaiting[] = "waiting";
// STAYS=1: if LEAVE=1 comes in this generation, this worker leaves it and sends STANDBY=waiting.
inline constexpr char kStays[] = "STAYS";
// The fork server of Python workers (launcher/python/fork_server.py). FORKSERVER=ready: it has
// imported the modules and can be forked. FORKSERVER=unfit reason: it has imported them and must
// not be forked; it exits.
inline constexpr char kForkServer[] = "FORKSERVER";
inline constexpr char kForkServerReady[] = "ready";
inline constexpr char kUnfit[] = "unfit";
// FORKED=n, from a process that was forked for FORK=n: like STANDBY=waiting.
inline constexpr char kForked[] = "FORKED";
// PROGRESS=1 asks for the progress page, without saying that the process group is up as READY does.

// PHASE=init: ddp::init() has begun. After a restart the agent measures how long each phase takes,
// from one PHASE, or READY, to the next, until the first STEP.
inline constexpr char kPhaseInit[] = "init";
// PHASE=restore: ddp::Checkpointer searches and loads a state; PHASE=first_step: it has finished.
inline constexpr char kPhaseRestore[] = "restore";
inline constexpr char kPhaseFirstStep[] = "first_step";
// The phases of the C++ library. Any other phase is the program's own.
inline bool IsPhaseOfTheLibrary(std::string_view name) {
  return name == kPhaseInit || name == kPhaseRestore || name == kPhaseFirstStep;
}

// Agent → worker, to workers that have sent something.
// SAVE=1: a planned stop is coming; make a checkpoint. Not sent to workers that have sent only STEP
// and phases of their own, because those need not listen. READY=1 tells that a worker listens.
inline constexpr char kSave[] = "SAVE";
// PROGRESS=version, after READY or PROGRESS=1, with one descriptor (SCM_RIGHTS): the worker's
// progress page, a memfd that nobody can resize. A worker that knows this version of the layout
// (progress_page.h) maps it and reports there instead of with STEP and PHASE.
inline constexpr char kProgress[] = "PROGRESS";
// LEAVE=1, to a worker that stays: the generation is over. Give up running collectives, close the
// connections to other ranks, and send STANDBY=waiting.
inline constexpr char kLeave[] = "LEAVE";
// GO=1, to a standby: become a worker. Three descriptors come with it (SCM_RIGHTS): a file with the
// whole new environment, NAME=value entries that each end with a NUL; stdout; stderr.
inline constexpr char kGo[] = "GO";
inline constexpr int kGoDescriptors = 3;
// FORK=n, to the fork server: fork a waiting process. One descriptor comes with it, with entries
// that each end with a NUL: its CPUs, "0,1" (empty: the server's), its program, and the arguments.
inline constexpr char kFork[] = "FORK";

// Kinds of ERROR. A `collective` error usually means that a peer died: such a worker is a victim.
inline constexpr char kErrorUser[] = "user";
inline constexpr char kErrorCollective[] = "collective";
inline constexpr char kErrorBind[] = "bind";  // MASTER_PORT was taken
inline constexpr char kErrorCheckpoint[] = "checkpoint";
// Another training owns the folder of checkpoints. Such a worker exits with kExitFolder, and the
// job is not restarted.
inline constexpr char kErrorFolder[] = "folder";
inline constexpr int kExitFolder = 77;  // the code of ddprun itself in this case
// A state exists and cannot be loaded. The job ends and is not restarted automatically.
inline constexpr char kErrorState[] = "state";

struct Line {
  std::string_view key;
  std::string_view value;
};

// Removes the first line of `packet` and returns it; nullopt: the packet is empty. A line without
// `=` or with an empty key is returned with an empty key, and the caller refuses it.
inline std::optional<Line> NextLine(std::string_view* packet) {
  if (packet->empty()) return std::nullopt;
  const std::size_t end = packet->find('\n');
  const std::string_view line = packet->substr(0, end);
  packet->remove_prefix(end == std::string_view::npos ? packet->size() : end + 1);
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return Line{{}, line};
  return Line{line.substr(0, equals), line.substr(equals + 1)};
}

// A non-negative decimal number that fills the whole of `text`; else nullopt.
inline std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last || value < 0) return std::nullopt;
  return value;
}

}  // namespace ddprun::control

#endif  // DDPRUN_WORKER_CONTRACT_CONTROL_H_
