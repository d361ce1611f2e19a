// The messages between a worker and its agent on the control socket.
//
// DDPRUN_CONTROL_SOCKET names a Unix socket of type SOCK_SEQPACKET. One message is one packet of
// `KEY=VALUE` lines. A few lines of Python can send one:
//
//     s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
//     s.connect(os.environ["DDPRUN_CONTROL_SOCKET"])
//     s.send(b"STEP=17")
//
// All messages are optional: the agent also starts and supervises a worker that never connects. The
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

// The agent refuses a longer packet, and closes its connection.
inline constexpr std::size_t kMaxPacketBytes = 8192;

// Worker → agent.
inline constexpr char kReady[] = "READY";            // READY=1: the process group is up
inline constexpr char kStep[] = "STEP";              // STEP=n: training step n is finished
inline constexpr char kCheckpoint[] = "CHECKPOINT";  // CHECKPOINT=step path: durable on disk
// CHECKPOINT_FAILED=step count reason: that checkpoint was not written; training continues. `count`
// is the number of failures of the sending Checkpointer so far, so the next message makes up for a
// lost one. A count that is not above the worker's highest count comes from another
// Checkpointer of the worker; the agent then adds 1.
inline constexpr char kCheckpointFailed[] = "CHECKPOINT_FAILED";
// CHECKPOINT_DAMAGED=step text: that checkpoint is damaged. The worker tries an older one.
inline constexpr char kCheckpointDamaged[] = "CHECKPOINT_DAMAGED";
inline constexpr char kSnapshot[] = "SNAPSHOT";  // SNAPSHOT=step: complete in DDPRUN_SNAPSHOT_DIR
// SNAPSHOT_FAILED=reason: a snapshot could not be made; training continues.
inline constexpr char kSnapshotFailed[] = "SNAPSHOT_FAILED";
// SAVED=tier time: the state was complete in that tier (kind of storage) `time` µs after training
// took the copy. Sent after CHECKPOINT (tier: durable) or SNAPSHOT (tier: memory).
inline constexpr char kSaved[] = "SAVED";
inline constexpr char kDurable[] = "durable";
inline constexpr char kMemory[] = "memory";
// PHASE=name: the worker has entered this phase, a part of the program.
inline constexpr char kPhase[] = "PHASE";
// TELLS=1: this program will report its steps. From then on the rendezvous judges whether this rank
// hangs, even before its first step. TELLS=0: it will not report steps after all.
inline constexpr char kTells[] = "TELLS";
// SAVES=0: this worker cannot make a checkpoint, so it cannot use SAVE=1. SAVES=1: it can.
inline constexpr char kSaves[] = "SAVES";
// STORE=host:port: the agent serves torch's store on MASTER_PORT, but this process looks for the
// store at this other address. Any process of the job may send this.
inline constexpr char kStore[] = "STORE";
// STRAGGLER=rank time others host: the other ranks wait for that rank. In each step it takes `time`
// µs until its first gradients are ready; other ranks take `others` µs. Sent again after each slow
// window of steps (100 by default). STRAGGLER=rank: the rank is no longer a straggler.
inline constexpr char kStraggler[] = "STRAGGLER";
// COMPARES=1, from rank 0: this worker compares the step times of all ranks. It will send STRAGGLER
// if the others wait for one rank.
inline constexpr char kCompares[] = "COMPARES";
inline constexpr char kError[] = "ERROR";  // ERROR=kind text: sent just before the worker exits
inline constexpr char kBye[] = "BYE";      // BYE=1: the worker will exit with 0
// SECRET=1 asks for the secret of this generation. The agent answers at once: SECRET=<64 hex
// digits>; the value is empty if there is no secret.
inline constexpr char kSecret[] = "SECRET";
// STANDBY=able: this program can be a standby; started with DDPRUN_STANDBY=1, it would wait for
// GO=1. STANDBY=waiting: it waits for GO=1. It was started with DDPRUN_STANDBY=1, or has left its
// generation.
inline constexpr char kStandby[] = "STANDBY";
inline constexpr char kAble[] = "able";
inline constexpr char kWaiting[] = "waiting";
// STAYS=1: when the agent sends LEAVE=1, this worker leaves the generation but does not exit. It
// then sends STANDBY=waiting.
inline constexpr char kStays[] = "STAYS";
// From the fork server, which forks Python workers (launcher/python/fork_server.py).
// FORKSERVER=ready: it has imported the modules and can be forked. FORKSERVER=unfit reason: it has
// imported the modules, but a fork would be unsafe; it exits.
inline constexpr char kForkServer[] = "FORKSERVER";
inline constexpr char kForkServerReady[] = "ready";
inline constexpr char kUnfit[] = "unfit";
// FORKED=n: the process that was forked for FORK=n waits for GO=1, like STANDBY=waiting.
inline constexpr char kForked[] = "FORKED";
// PROGRESS=1 (kProgress below) asks for the progress page. Unlike READY, it does not report a
// process group.

// Names of phases. After a restart, the agent measures how long each phase takes, until the first
// STEP. A phase ends with the next PHASE, with READY or with the first STEP.
// PHASE=init: ddp::init() has begun.
inline constexpr char kPhaseInit[] = "init";
// PHASE=restore: a Checkpointer has begun to search for a state and to load it.
// PHASE=first_step: the state is loaded, or there is none.
inline constexpr char kPhaseRestore[] = "restore";
inline constexpr char kPhaseFirstStep[] = "first_step";
// True for phases that only the C++ library and Python's ddprun.Checkpointer send: a worker that
// has sent one listens for SAVE=1. Every other name may come from the program itself, so it does
// not show that the worker listens. This includes `checkpoint`, which Python's Checkpointer sends
// during a save.
inline bool IsPhaseOfTheLibrary(std::string_view name) {
  return name == kPhaseInit || name == kPhaseRestore || name == kPhaseFirstStep;
}

// Agent → worker. The agent sends only to workers that have sent something.
// SAVE=1: a planned stop is coming; make a checkpoint. Sent only to a worker that has sent READY,
// SNAPSHOT, CHECKPOINT, CHECKPOINT_FAILED, CHECKPOINT_DAMAGED, STRAGGLER, ERROR or a phase of the
// library: other workers need not listen. Not sent to a worker that cannot save (SAVES=0).
inline constexpr char kSave[] = "SAVE";
// PROGRESS=version, the answer to READY or PROGRESS=1, comes with one descriptor (SCM_RIGHTS). The
// descriptor is the worker's progress page: a memfd that nobody can resize. A worker that knows
// this version of the layout (progress_page.h) maps it. The C++ library then writes its progress
// there, and still sends STEP and PHASE. Python writes only its collectives there.
inline constexpr char kProgress[] = "PROGRESS";
// LEAVE=1, to a worker that has sent STAYS=1: the generation is over. The worker must give up
// running collectives, close its connections to other ranks, and send STANDBY=waiting.
inline constexpr char kLeave[] = "LEAVE";
// GO=1, to a standby: become a worker. Three descriptors come with it (SCM_RIGHTS): a file with the
// complete new environment, stdout, stderr. In the file, each entry NAME=value ends with a NUL.
inline constexpr char kGo[] = "GO";
inline constexpr int kGoDescriptors = 3;
// FORK=n, to the fork server: fork a process that waits for GO=1. One descriptor comes with it: a
// file with entries that each end with a NUL. The entries are the CPUs ("0,1"; empty: the fork
// server's own), the program, and its arguments.
inline constexpr char kFork[] = "FORK";

// Kinds of ERROR. A `collective` error usually means that another rank died. Then this worker is a
// victim, not the root cause.
inline constexpr char kErrorUser[] = "user";
inline constexpr char kErrorCollective[] = "collective";
inline constexpr char kErrorBind[] = "bind";  // another process has MASTER_PORT
// A file of tensors could not be written or read, or does not fit the model (ddp::CheckpointError).
inline constexpr char kErrorCheckpoint[] = "checkpoint";
// Another training owns the checkpoint folder. The rendezvous does not restart the job. ddp::run()
// then exits with kExitFolder, and ddprun with the same code.
inline constexpr char kErrorFolder[] = "folder";
inline constexpr int kExitFolder = 77;
// A state exists and cannot be loaded. The job ends without an automatic restart.
inline constexpr char kErrorState[] = "state";

struct Line {
  std::string_view key;
  std::string_view value;
};

// Removes the first line of `packet` and returns it. nullopt: the packet is empty. If the line has
// no `=` or an empty key, the returned key is empty; the caller refuses such a line.
inline std::optional<Line> NextLine(std::string_view* packet) {
  if (packet->empty()) return std::nullopt;
  const std::size_t end = packet->find('\n');
  const std::string_view line = packet->substr(0, end);
  packet->remove_prefix(end == std::string_view::npos ? packet->size() : end + 1);
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return Line{{}, line};
  return Line{line.substr(0, equals), line.substr(equals + 1)};
}

// `text` as a non-negative decimal number; nullopt if it is anything else.
inline std::optional<std::int64_t> ParseNumber(std::string_view text) {
  std::int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last || value < 0) return std::nullopt;
  return value;
}

}  // namespace ddprun::control

#endif  // DDPRUN_WORKER_CONTRACT_CONTROL_H_
