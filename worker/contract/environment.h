// The environment that an agent gives to every worker: the names, and which process has which.
// launcher/agent/worker_environment.cc has the values; docs/worker-environment.md tells users of
// them.
//
// The first group is torchrun's (torch/distributed/elastic/agent/server/local_elastic_agent.py and
// the "Environment Variables" section of its documentation), complete, so that a program written
// for torchrun finds what it expects. The second group is ddprun's own.
//
// Standard library only: the launcher writes these names and the worker library reads them.
#ifndef DDPRUN_WORKER_CONTRACT_ENVIRONMENT_H_
#define DDPRUN_WORKER_CONTRACT_ENVIRONMENT_H_

namespace ddprun::env {

// torchrun's.
inline constexpr char kRank[] = "RANK";                        // global rank, 0..WORLD_SIZE-1
inline constexpr char kLocalRank[] = "LOCAL_RANK";             // rank on this node
inline constexpr char kGroupRank[] = "GROUP_RANK";             // rank of the node
inline constexpr char kRoleRank[] = "ROLE_RANK";               // rank within the role
inline constexpr char kRoleName[] = "ROLE_NAME";               // --role, "default" unless given
inline constexpr char kWorldSize[] = "WORLD_SIZE";             // workers in the job
inline constexpr char kLocalWorldSize[] = "LOCAL_WORLD_SIZE";  // workers on this node
inline constexpr char kGroupWorldSize[] = "GROUP_WORLD_SIZE";  // nodes in the job
inline constexpr char kRoleWorldSize[] = "ROLE_WORLD_SIZE";    // workers with this role
inline constexpr char kMasterAddr[] = "MASTER_ADDR";           // address of rank 0's node
inline constexpr char kMasterPort[] = "MASTER_PORT";           // of torch's store: kUseAgentStore
inline constexpr char kRestartCount[] = "TORCHELASTIC_RESTART_COUNT";
inline constexpr char kMaxRestarts[] = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr char kRunId[] = "TORCHELASTIC_RUN_ID";  // the job's name (--rdzv-id)
// "True": rank 0's agent serves the store on MASTER_PORT, and every rank is a client. "False": rank
// 0 listens there.
inline constexpr char kUseAgentStore[] = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr char kErrorFile[] = "TORCHELASTIC_ERROR_FILE";  // where to write an error as JSON
inline constexpr char kNcclAsyncErrorHandling[] = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr char kOlderNcclAsyncErrorHandling[] = "NCCL_ASYNC_ERROR_HANDLING";  // before 2.2
inline constexpr char kOmpNumThreads[] = "OMP_NUM_THREADS";

// ddprun's.
inline constexpr char kGeneration[] = "DDPRUN_GENERATION";  // which forming of the group, from 0
inline constexpr char kEpoch[] = "DDPRUN_EPOCH";            // the requeue number of the job
// Which run of the job, 16 hex digits: random, and the same in all of its generations. Not set: the
// rendezvous is older than that.
inline constexpr char kJobRunId[] = "DDPRUN_JOB_RUN_ID";
inline constexpr char kRunDir[] = "DDPRUN_RUN_DIR";  // this run's log folder on this node
inline constexpr char kCheckpointDir[] = "DDPRUN_CHECKPOINT_DIR";  // durable; only rank 0 writes
// 1: take the folder of checkpoints also from another training that is using it (--take-folder).
inline constexpr char kTakeFolder[] = "DDPRUN_TAKE_FOLDER";
inline constexpr char kSnapshotDir[] = "DDPRUN_SNAPSHOT_DIR";      // in memory; outlives the worker
inline constexpr char kControlSocket[] = "DDPRUN_CONTROL_SOCKET";  // see control.h
// "ask": the workers of this generation share a secret; the control socket has it, for SECRET=1.
inline constexpr char kPeerSecret[] = "DDPRUN_PEER_SECRET";
inline constexpr char kAskForSecret[] = "ask";
// 1: this process is a warm standby. It has no rank yet: it says STANDBY=waiting on the control
// socket and waits for GO=1, whose environment does not have this variable.
inline constexpr char kStandby[] = "DDPRUN_STANDBY";

// What this generation begins with: the same values for every rank. None of them is set where no
// agent has been told of a state; rank 0 loads the newest that it finds then. A state is named by
// the requeue number and generation that made it and its step: see checkpoint_file.h. With the tier
// "none" the training starts at step 0: there is no state, or only such as must not be loaded, and
// the others of these are not set.
inline constexpr char kRestoreStep[] = "DDPRUN_RESTORE_STEP";  // 0 with "none"
inline constexpr char kRestoreTier[] = "DDPRUN_RESTORE_TIER";  // memory | durable | none
inline constexpr char kRestoreRank[] = "DDPRUN_RESTORE_RANK";  // holds it, and gives it to all
inline constexpr char kRestoreEpoch[] = "DDPRUN_RESTORE_EPOCH";
// -1: the file does not say, or it was made by another job.
inline constexpr char kRestoreGeneration[] = "DDPRUN_RESTORE_GENERATION";
// How long a state that is there and not given out is tried again, in ms
// (checkpoint.state_timeout).
inline constexpr char kStateTimeout[] = "DDPRUN_STATE_TIMEOUT_MS";
// hang.timeout or hang.startup_timeout, whichever is longer, in ms. A worker's own limits should be
// longer: ddprun knows more about a hang. With hang.timeout auto ddprun may wait longer than this,
// after long intervals without a move. Not set where hangs are not judged.
inline constexpr char kHangLimit[] = "DDPRUN_HANG_LIMIT_MS";
// 1: checkpoint.start_anew: what was there before the job is neither loaded nor removed.
inline constexpr char kAnew[] = "DDPRUN_ANEW";

inline constexpr char kTierMemory[] = "memory";    // in the source's DDPRUN_SNAPSHOT_DIR
inline constexpr char kTierDurable[] = "durable";  // where the source said CHECKPOINT, or finds it
inline constexpr char kTierNone[] = "none";

// Who has a variable.
enum class Scope {
  kProcess,   // each process that the agent starts, where there is a value
  kRank,      // only a process with a rank, so no warm standby
  kStandby,   // only a warm standby
  kUnlessSet  // each process; a value of the user's is left alone
};

struct Variable {
  const char* name;
  Scope scope;
  const char* key = "";  // of a job file, for what a user may choose; "": ddprun alone sets it
};

// All of the above. Whatever is not kUnlessSet a worker has from its agent or not at all: neither
// from an outer job nor from the job file's `env`.
inline constexpr Variable kVariables[] = {
    {kRank, Scope::kRank},
    {kLocalRank, Scope::kProcess},
    {kGroupRank, Scope::kRank},
    {kRoleRank, Scope::kRank},
    {kRoleName, Scope::kProcess, "role"},
    {kWorldSize, Scope::kRank},
    {kLocalWorldSize, Scope::kProcess},
    {kGroupWorldSize, Scope::kRank},
    {kRoleWorldSize, Scope::kRank},
    {kMasterAddr, Scope::kRank},
    {kMasterPort, Scope::kRank},
    {kRestartCount, Scope::kRank},
    {kMaxRestarts, Scope::kRank},
    {kRunId, Scope::kProcess, "rendezvous.id"},
    {kUseAgentStore, Scope::kRank, "store"},
    {kErrorFile, Scope::kRank},
    {kNcclAsyncErrorHandling, Scope::kUnlessSet},
    {kOlderNcclAsyncErrorHandling, Scope::kUnlessSet},
    {kOmpNumThreads, Scope::kUnlessSet},
    {kGeneration, Scope::kRank},
    {kEpoch, Scope::kProcess},
    {kJobRunId, Scope::kRank},
    {kRunDir, Scope::kProcess},
    {kCheckpointDir, Scope::kProcess, "checkpoint_dir"},
    {kTakeFolder, Scope::kRank, "checkpoint.take_folder"},
    {kSnapshotDir, Scope::kProcess},
    {kControlSocket, Scope::kProcess},
    {kPeerSecret, Scope::kRank},
    {kStandby, Scope::kStandby},
    {kRestoreStep, Scope::kRank},
    {kRestoreTier, Scope::kRank},
    {kRestoreRank, Scope::kRank},
    {kRestoreEpoch, Scope::kRank},
    {kRestoreGeneration, Scope::kRank},
    {kStateTimeout, Scope::kProcess, "checkpoint.state_timeout"},
    {kHangLimit, Scope::kProcess, "hang.startup_timeout"},
    {kAnew, Scope::kProcess, "checkpoint.start_anew"},
};

}  // namespace ddprun::env

#endif  // DDPRUN_WORKER_CONTRACT_ENVIRONMENT_H_
