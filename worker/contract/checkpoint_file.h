// The parts of a durable checkpoint (a file on a disk) that an agent reads to learn which states
// its node holds. The agent does not load the tensors.
//
// The agent looks at `step-<number>.safetensors` in DDPRUN_CHECKPOINT_DIR, and at files that
// workers named with CHECKPOINT=. A safetensors file counts as complete if its length matches its
// header. Only the loader checks the hashes. The entries of `__metadata__` below name the job, run
// and generation that made the file. If they are missing or name another job, the agent treats a
// file that it found in the folder as older than this job.
//
// Standard library only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_
#define DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_

#include <cstddef>

namespace ddprun::checkpoint_file {

inline constexpr char kPrefix[] = "step-";
inline constexpr char kSuffix[] = ".safetensors";

// The step in decimal, as in the file's name. If the name says another step (a copied or renamed
// file), no rank loads the file.
inline constexpr char kStep[] = "step";
inline constexpr char kJob[] = "ddprun_job";                // TORCHELASTIC_RUN_ID
inline constexpr char kEpoch[] = "ddprun_epoch";            // DDPRUN_EPOCH: the requeue number
inline constexpr char kGeneration[] = "ddprun_generation";  // DDPRUN_GENERATION, decimal
// kRun is DDPRUN_JOB_RUN_ID; if that is not set, 16 random hex digits. kAncestors lists the runs
// from which that run continued, nearest first, separated by commas. Files of older versions lack
// both.
inline constexpr char kRun[] = "ddprun_run";
inline constexpr char kAncestors[] = "ddprun_descends_from";
// Older ancestors are dropped. 256 are enough for ten days with a requeue every hour.
inline constexpr std::size_t kMaxAncestors = 256;

}  // namespace ddprun::checkpoint_file

#endif  // DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_
