// The environment that an agent gives to every worker: the names, and nothing else.
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
inline constexpr char kMasterPort[] = "MASTER_PORT";           // a port that rank 0 may listen on
inline constexpr char kRestartCount[] = "TORCHELASTIC_RESTART_COUNT";
inline constexpr char kMaxRestarts[] = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr char kRunId[] = "TORCHELASTIC_RUN_ID";  // the job's name (--rdzv-id)
inline constexpr char kUseAgentStore[] = "TORCHELASTIC_USE_AGENT_STORE";  // always "False"
inline constexpr char kErrorFile[] = "TORCHELASTIC_ERROR_FILE";  // where to write an error as JSON
inline constexpr char kNcclAsyncErrorHandling[] = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr char kOmpNumThreads[] = "OMP_NUM_THREADS";

// ddprun's.
inline constexpr char kGeneration[] = "DDPRUN_GENERATION";  // which forming of the group, from 0
inline constexpr char kEpoch[] = "DDPRUN_EPOCH";     // which life of the job: Slurm's restarts
inline constexpr char kRunDir[] = "DDPRUN_RUN_DIR";  // this run's log folder on this node
inline constexpr char kCheckpointDir[] = "DDPRUN_CHECKPOINT_DIR";  // durable; only rank 0 writes
inline constexpr char kSnapshotDir[] = "DDPRUN_SNAPSHOT_DIR";      // in memory; outlives the worker
inline constexpr char kControlSocket[] = "DDPRUN_CONTROL_SOCKET";  // see control.h
// 1: this process is a warm standby. It has no rank yet: it says STANDBY=waiting on the control
// socket and waits for GO=1, whose environment does not have this variable.
inline constexpr char kStandby[] = "DDPRUN_STANDBY";

// What this generation begins with: the same values for every rank. None of them is set where no
// agent has been told of a state; rank 0 loads the newest that it finds then. A state is named by
// the epoch and generation that made it and its step: see checkpoint_file.h. With the tier "none"
// the training starts at step 0: there is no state, or only such as must not be loaded, and the
// others of these are not set.
inline constexpr char kRestoreStep[] = "DDPRUN_RESTORE_STEP";  // 0 with "none"
inline constexpr char kRestoreTier[] = "DDPRUN_RESTORE_TIER";  // memory | durable | none
inline constexpr char kRestoreRank[] = "DDPRUN_RESTORE_RANK";  // holds it, and gives it to all
inline constexpr char kRestoreEpoch[] = "DDPRUN_RESTORE_EPOCH";
// -1: the file does not say, or it was made by another job.
inline constexpr char kRestoreGeneration[] = "DDPRUN_RESTORE_GENERATION";

inline constexpr char kTierMemory[] = "memory";    // in the source's DDPRUN_SNAPSHOT_DIR
inline constexpr char kTierDurable[] = "durable";  // where the source said CHECKPOINT, or finds it
inline constexpr char kTierNone[] = "none";

}  // namespace ddprun::env

#endif  // DDPRUN_WORKER_CONTRACT_ENVIRONMENT_H_
