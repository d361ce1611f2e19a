// Names the run that makes a state, and the runs from which the state descends. Each checkpoint's
// metadata contains both (worker/contract/checkpoint_file.h).
//
// The removal of old checkpoints uses the lineage to decide which files may be removed, because a
// folder may contain files of another training.
#ifndef DDPRUN_WORKER_SRC_STORAGE_LINEAGE_H_
#define DDPRUN_WORKER_SRC_STORAGE_LINEAGE_H_

#include <string>
#include <vector>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/formats/safetensors.h"

namespace ddp::internal {

class Lineage {
 public:
  // The lineage of this process's run. The run is DDPRUN_JOB_RUN_ID, or a random id of this process
  // alone if that is not set.
  static Lineage OfProcess(const Getenv& getenv);
  // The lineage in the metadata of a file. If an older version wrote the file, there is no run.
  static Lineage Of(const Metadata& metadata);

  const std::string& run() const { return run_; }

  // Call it when this run continues from a state that was loaded completely. `metadata` is the
  // state's.
  void Loaded(const Metadata& metadata);

  void AddTo(Metadata* metadata) const;

  // True if a file with this metadata may be removed: it belongs to this run, or to the run
  // from whose state this run continued. False for a file that names no run.
  bool MayRemove(const Metadata& metadata) const;

 private:
  std::string run_;
  std::vector<std::string> ancestors_;  // nearest first
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_LINEAGE_H_
