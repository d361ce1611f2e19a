// Names the run that makes a state, and the runs from which the state descends. Stored in the
// metadata of each checkpoint (worker/contract/checkpoint_file.h).
//
// Retention uses it to decide which files may be removed. A folder may contain files of another
// training, about which nothing else is known.
#ifndef DDPRUN_WORKER_SRC_STORAGE_LINEAGE_H_
#define DDPRUN_WORKER_SRC_STORAGE_LINEAGE_H_

#include <string>
#include <vector>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/formats/safetensors.h"

namespace ddp::internal {

// A value.
class Lineage {
 public:
  // The lineage of this process's run: DDPRUN_JOB_RUN_ID, or a random id of this process alone if
  // no launcher gave one.
  static Lineage OfProcess(const Getenv& getenv);
  // From the metadata of a file; without a run if an older version wrote it.
  static Lineage Of(const Metadata& metadata);

  const std::string& run() const { return run_; }

  // This run continues from a state with this metadata, which was loaded completely.
  void Loaded(const Metadata& metadata);

  void AddTo(Metadata* metadata) const;

  // A file with this metadata may be removed: it belongs to this run, or to a run from whose state
  // this run continued. Never a file that names no run.
  bool MayRemove(const Metadata& metadata) const;

 private:
  std::string run_;
  std::vector<std::string> ancestors_;  // the nearest first
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_LINEAGE_H_
