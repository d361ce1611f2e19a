// The environment variables that an agent gives to each worker: their names and meaning, and which
// processes get them. launcher/agent/worker_environment.cc sets the values. For users:
// docs/worker-environment.md, and the manual page ddprun-worker(7), which is generated from
// kVariables.
//
// The first group has torchrun's variables, so programs written for torchrun find what they expect.
// Sources: torch/distributed/elastic/agent/server/local_elastic_agent.py, and the section
// "Environment Variables" of torchrun's documentation. The second group is ddprun's own.
//
// Standard library only: the launcher writes these names and the worker library reads them.
#ifndef DDPRUN_WORKER_CONTRACT_ENVIRONMENT_H_
#define DDPRUN_WORKER_CONTRACT_ENVIRONMENT_H_

namespace ddprun::env {

// torchrun's variables. kVariables below explains each.
inline constexpr char kRank[] = "RANK";
inline constexpr char kLocalRank[] = "LOCAL_RANK";
inline constexpr char kGroupRank[] = "GROUP_RANK";
inline constexpr char kRoleRank[] = "ROLE_RANK";
inline constexpr char kRoleName[] = "ROLE_NAME";
inline constexpr char kWorldSize[] = "WORLD_SIZE";
inline constexpr char kLocalWorldSize[] = "LOCAL_WORLD_SIZE";
inline constexpr char kGroupWorldSize[] = "GROUP_WORLD_SIZE";
inline constexpr char kRoleWorldSize[] = "ROLE_WORLD_SIZE";
inline constexpr char kMasterAddr[] = "MASTER_ADDR";
inline constexpr char kMasterPort[] = "MASTER_PORT";
inline constexpr char kRestartCount[] = "TORCHELASTIC_RESTART_COUNT";
inline constexpr char kMaxRestarts[] = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr char kRunId[] = "TORCHELASTIC_RUN_ID";
inline constexpr char kUseAgentStore[] = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr char kErrorFile[] = "TORCHELASTIC_ERROR_FILE";
inline constexpr char kNcclAsyncErrorHandling[] = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr char kOlderNcclAsyncErrorHandling[] = "NCCL_ASYNC_ERROR_HANDLING";
inline constexpr char kOmpNumThreads[] = "OMP_NUM_THREADS";

// ddprun's variables.
inline constexpr char kGeneration[] = "DDPRUN_GENERATION";
inline constexpr char kEpoch[] = "DDPRUN_EPOCH";
inline constexpr char kJobRunId[] = "DDPRUN_JOB_RUN_ID";
inline constexpr char kRunDir[] = "DDPRUN_RUN_DIR";
inline constexpr char kCheckpointDir[] = "DDPRUN_CHECKPOINT_DIR";
inline constexpr char kTakeFolder[] = "DDPRUN_TAKE_FOLDER";
inline constexpr char kSnapshotDir[] = "DDPRUN_SNAPSHOT_DIR";
inline constexpr char kControlSocket[] = "DDPRUN_CONTROL_SOCKET";
inline constexpr char kPeerSecret[] = "DDPRUN_PEER_SECRET";
inline constexpr char kAskForSecret[] = "ask";  // the value of DDPRUN_PEER_SECRET
inline constexpr char kStandby[] = "DDPRUN_STANDBY";

// DDPRUN_RESTORE_*: the state with which this generation begins; every rank gets the same values.
// If no agent has reported a state, these variables are not set (except with --start-anew), and the
// ranks load the newest state that rank 0 finds. A state is identified by its step, and by the
// requeue number and generation in which it was made (checkpoint_file.h). With the tier "none" only
// the step and the tier are set, and perhaps DDPRUN_RESTORE_UNSEEN.
inline constexpr char kRestoreStep[] = "DDPRUN_RESTORE_STEP";
inline constexpr char kRestoreTier[] = "DDPRUN_RESTORE_TIER";
inline constexpr char kRestoreRank[] = "DDPRUN_RESTORE_RANK";
inline constexpr char kRestoreEpoch[] = "DDPRUN_RESTORE_EPOCH";
inline constexpr char kRestoreGeneration[] = "DDPRUN_RESTORE_GENERATION";
inline constexpr char kRestoreUnseen[] = "DDPRUN_RESTORE_UNSEEN";
inline constexpr char kStateTimeout[] = "DDPRUN_STATE_TIMEOUT_MS";
inline constexpr char kHangLimit[] = "DDPRUN_HANG_LIMIT_MS";
inline constexpr char kAnew[] = "DDPRUN_ANEW";
inline constexpr char kTierMemory[] = "memory";    // in DDPRUN_SNAPSHOT_DIR of DDPRUN_RESTORE_RANK
inline constexpr char kTierDurable[] = "durable";  // in a checkpoint file on that rank's node
inline constexpr char kTierNone[] = "none";

// Which processes get a variable.
enum class Scope {
  kProcess,   // each process that the agent starts, if the variable has a value
  kRank,      // only a process with a rank; a warm standby has none
  kStandby,   // only a warm standby
  kUnlessSet  // each process, unless the user has set a value
};

struct Variable {
  const char* name;
  Scope scope;
  const char* what;      // for users: at least one sentence
  const char* key = "";  // the key in a job file to use instead; "": ddprun names none
};

// All variables above. A worker gets them only from its agent. The agent first removes them from
// the environment that ddprun has inherited, and from the job file's `env`. The exception is
// kUnlessSet.
inline constexpr Variable kVariables[] = {
    {kRank, Scope::kRank, "Rank of the worker in the job, 0 to WORLD_SIZE - 1."},
    {kLocalRank, Scope::kProcess,
     "Rank of the worker on its node. With --virtual-local-rank always 0."},
    {kGroupRank, Scope::kRank, "Rank of the node."},
    {kRoleRank, Scope::kRank, "Rank of the worker among those of its role."},
    {kRoleName, Scope::kProcess, "Name of the workers' role.", "role"},
    {kWorldSize, Scope::kRank, "Workers in the job."},
    {kLocalWorldSize, Scope::kProcess, "Workers on this node."},
    {kGroupWorldSize, Scope::kRank, "Nodes in the job."},
    {kRoleWorldSize, Scope::kRank, "Workers with this role."},
    {kMasterAddr, Scope::kRank, "Address of rank 0's node."},
    {kMasterPort, Scope::kRank, "Port of torch's store on rank 0's node."},
    {kRestartCount, Scope::kRank, "Restarts so far."},
    {kMaxRestarts, Scope::kRank, "Restarts that the job may use."},
    {kRunId, Scope::kProcess, "Name of the job.", "rendezvous.id"},
    {kUseAgentStore, Scope::kRank,
     "True: rank 0's agent serves torch's store on MASTER_PORT, and every rank is a client. False: "
     "rank 0 listens there.",
     "store"},
    {kErrorFile, Scope::kRank, "File to which the worker may write an error, as JSON."},
    {kNcclAsyncErrorHandling, Scope::kUnlessSet,
     "1: a collective of NCCL that fails ends the process."},
    {kOlderNcclAsyncErrorHandling, Scope::kUnlessSet,
     "The same variable: PyTorch before 2.2 uses this name."},
    {kOmpNumThreads, Scope::kUnlessSet, "1 if the node has more than one worker."},
    {kGeneration, Scope::kRank,
     "Number of the generation, from 0. A lost node also causes a new generation, so this number "
     "can be higher than the restart count."},
    {kEpoch, Scope::kProcess,
     "Requeue number of the job: 0, Slurm's restart count, or JobSet's restart attempt."},
    {kJobRunId, Scope::kRank,
     "Run id: 16 random hex digits, the same in all generations and on all nodes. Not set if the "
     "rendezvous has an older version that knows no run id."},
    {kRunDir, Scope::kProcess, "Log folder of this run on this node."},
    {kCheckpointDir, Scope::kProcess, "Folder for checkpoints. Only rank 0 writes there.",
     "checkpoint_dir"},
    {kTakeFolder, Scope::kRank, "1: use the checkpoint folder even if another training uses it.",
     "checkpoint.take_folder"},
    {kSnapshotDir, Scope::kProcess,
     "Folder in memory for snapshots. It outlives the worker; the agent removes it when the job "
     "ends. Not set if the memory has no room."},
    {kControlSocket, Scope::kProcess, "Path of the control socket."},
    {kPeerSecret, Scope::kRank,
     "ask: the workers of this generation share a secret. A worker gets it from the control socket "
     "with SECRET=1."},
    {kStandby, Scope::kStandby,
     "1: this process is a warm standby and has no rank yet. It sends STANDBY=waiting on the "
     "control socket and waits for GO=1. The environment that comes with GO=1 does not have this "
     "variable."},
    {kRestoreStep, Scope::kRank,
     "Step of the state with which this generation begins. 0 if the tier is none."},
    {kRestoreTier, Scope::kRank,
     "Where that state is. memory: in the snapshot folder of the rank that has it. durable: in a "
     "checkpoint. none: the training starts at step 0, because there is no state that may be "
     "loaded."},
    {kRestoreRank, Scope::kRank, "Rank that has the state and sends it to the others."},
    {kRestoreEpoch, Scope::kRank, "Requeue number of the job when the state was made."},
    {kRestoreGeneration, Scope::kRank,
     "Generation that made the state. -1: the file does not say, or another job made it."},
    {kRestoreUnseen, Scope::kRank,
     "\"STEP RANK EPOCH GENERATION\" of a newer checkpoint. The ranks look for it first. A worker "
     "reported it, but no node lists it. The node of RANK may hold it, because a part of its disk "
     "cannot be read. Not set: there is no such checkpoint."},
    {kStateTimeout, Scope::kProcess,
     "How long to retry reading a state that exists and cannot be read, in ms.",
     "checkpoint.state_timeout"},
    {kHangLimit, Scope::kProcess,
     "The longer of hang.startup_timeout and hang.timeout, in ms, at most 7 days. With "
     "hang.timeout auto, ddprun may wait longer before it reports a hang. Not set with "
     "hang.timeout off. Set the timeouts of collectives to a longer time, so that ddprun's "
     "report, which names the rank, comes first.",
     "hang.startup_timeout"},
    {kAnew, Scope::kProcess,
     "1: do not load or remove states from before this run. Otherwise not set.",
     "checkpoint.start_anew"},
};

}  // namespace ddprun::env

#endif  // DDPRUN_WORKER_CONTRACT_ENVIRONMENT_H_
