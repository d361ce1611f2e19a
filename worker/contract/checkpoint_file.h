// What an agent reads of a durable checkpoint, without loading it, to tell what its node holds.
//
// It looks at `step-<number>.safetensors` in DDPRUN_CHECKPOINT_DIR, and at what workers have named
// with CHECKPOINT=. A safetensors file is whole where its length is what its header says; hashes
// are checked by who loads it. These entries of `__metadata__` say who made it; a file without
// them, or of another job, counts as made before this job.
//
// Standard library only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_
#define DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_

#include <cstddef>

namespace ddprun::checkpoint_file {

inline constexpr char kPrefix[] = "step-";
inline constexpr char kSuffix[] = ".safetensors";

// As in its name, decimal. A file that was copied or renamed to another step's name is of no step.
inline constexpr char kStep[] = "step";
inline constexpr char kJob[] = "ddprun_job";                // TORCHELASTIC_RUN_ID
inline constexpr char kEpoch[] = "ddprun_epoch";            // DDPRUN_EPOCH: the requeue number
inline constexpr char kGeneration[] = "ddprun_generation";  // DDPRUN_GENERATION, decimal
// DDPRUN_JOB_RUN_ID, or a random number of 16 hex digits where there is no launcher; and the runs
// from whose states that run went on, the nearest first, separated by commas. Files without them
// are of older versions.
inline constexpr char kRun[] = "ddprun_run";
inline constexpr char kAncestors[] = "ddprun_descends_from";
// More would be those of a job that was requeued every hour for weeks.
inline constexpr std::size_t kMaxAncestors = 256;

}  // namespace ddprun::checkpoint_file

#endif  // DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_
