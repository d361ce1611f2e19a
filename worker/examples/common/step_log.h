// A line for each finished training step, for tests that count which steps were done and when.
#ifndef DDPRUN_WORKER_EXAMPLES_COMMON_STEP_LOG_H_
#define DDPRUN_WORKER_EXAMPLES_COMMON_STEP_LOG_H_

#include <ddp/context.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace example {

// Appends to directory/rank<R>.log, one write(2) a line, so that a line is there whole or not at
// all when the process is killed.
class RankLog {
 public:
  // Creates the directory; empty: no log. Throws std::runtime_error.
  RankLog(const std::string& directory, int rank);

  bool enabled() const { return fd_.valid(); }
  // `line`: without its end.
  void Append(std::string line);

 private:
  std::string path_;
  ddprun::UniqueFd fd_;
};

// What --step-log and --trace-samples ask for.
class StepLog {
 public:
  // Empty folders: nothing is written there. Throws std::runtime_error.
  StepLog(const ddp::Context& ctx, const std::string& steps, const std::string& samples)
      : generation_(ctx.generation()), steps_(steps, ctx.rank()), samples_(samples, ctx.rank()) {}

  // Step `step`, of epoch `epoch`, has used the samples `indices`. `loss` is written with all its
  // digits: equal lines are equal bits.
  void Add(std::int64_t epoch, std::int64_t step, const std::vector<std::size_t>& indices,
           double loss);

 private:
  const int generation_;
  RankLog steps_;
  RankLog samples_;
};

}  // namespace example

#endif  // DDPRUN_WORKER_EXAMPLES_COMMON_STEP_LOG_H_
