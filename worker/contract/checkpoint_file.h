// The parts of a durable checkpoint that an agent reads, without loading it, to tell which states
// its node holds.
//
// The agent looks at `step-<number>.safetensors` in DDPRUN_CHECKPOINT_DIR, and at files that
// workers named with CHECKPOINT=. A safetensors file is whole if its length matches its header; the
// loader checks the hashes. The entries of `__metadata__` below name the maker. A file without
// them, or of another job, counts as made before this job.
//
// Standard library only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_
#define DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_

#include <cstddef>

namespace ddprun::checkpoint_file {

inline constexpr char kPrefix[] = "step-";
inline constexpr char kSuffix[] = ".safetensors";

// As in its name, decimal. A file copied or renamed to the name of another step belongs to no step.
inline constexpr char kStep[] = "step";
inline constexpr char kJob[] = "ddprun_job";                // TORCHELASTIC_RUN_ID
inline constexpr char kEpoch[] = "ddprun_epoch";            // DDPRUN_EPOCH: the requeue number
inline constexpr char kGeneration[] = "ddprun_generation";  // DDPRUN_GENERATION, decimal
// kRun: DDPRUN_JOB_RUN_ID, or a random number of 16 hex digits without a launcher. kAncestors: the
// runs from whose states that run continued, nearest first, separated by commas. Files of older
// versions lack both.
inline constexpr char kRun[] = "ddprun_run";
inline constexpr char kAncestors[] = "ddprun_descends_from";
// Only a job that is requeued every hour for weeks has more.
inline constexpr std::size_t kMaxAncestors = 256;

}  // namespace ddprun::checkpoint_file

#endif  // DDPRUN_WORKER_CONTRACT_CHECKPOINT_FILE_H_
