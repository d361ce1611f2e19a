// Which run of a job makes a state, and from which runs that state descends: in the metadata of
// each checkpoint, as worker/contract/checkpoint_file.h names it.
//
// It decides which files retention may remove. A folder may have those of another training, of
// which nothing is known but that it is not this one.
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
  // Of this process's run: DDPRUN_JOB_RUN_ID, or a random one, of this process alone, where no
  // launcher has drawn any.
  static Lineage OfProcess(const Getenv& getenv);
  // As a file says; of no run where an older version wrote it.
  static Lineage Of(const Metadata& metadata);

  const std::string& run() const { return run_; }

  // This run goes on from a state with this metadata, which was loaded whole.
  void Loaded(const Metadata& metadata);

  void AddTo(Metadata* metadata) const;

  // Whether a file of that metadata may go: this run's, or of the run from whose state it went on.
  // Never one that names no run.
  bool MayRemove(const Metadata& metadata) const;

 private:
  std::string run_;
  std::vector<std::string> ancestors_;  // the nearest first
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_LINEAGE_H_
