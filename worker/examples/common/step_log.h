// Logs a line for each finished training step. Tests use the lines to count the steps and their
// times.
#ifndef DDPRUN_WORKER_EXAMPLES_COMMON_STEP_LOG_H_
#define DDPRUN_WORKER_EXAMPLES_COMMON_STEP_LOG_H_

#include <ddp/context.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace example {

// Appends to directory/rank<R>.log. Each line is one write(2), so if the process is killed, the
// line is complete or missing.
class RankLog {
 public:
  // Creates the directory. If `directory` is empty, there is no log. Throws std::runtime_error.
  RankLog(const std::string& directory, int rank);

  bool enabled() const { return fd_.valid(); }
  // `line` has no line break.
  void Append(std::string line);

 private:
  std::string path_;
  ddprun::UniqueFd fd_;
};

// The logs of --step-log and --trace-samples.
class StepLog {
 public:
  // If a folder is empty, there is no such log. Throws std::runtime_error.
  StepLog(const ddp::Context& ctx, const std::string& steps, const std::string& samples)
      : generation_(ctx.generation()), steps_(steps, ctx.rank()), samples_(samples, ctx.rank()) {}

  // Step `step` of epoch `epoch` has used the samples `indices`. `loss` is written with all its
  // digits, so equal lines mean equal bits.
  void Add(std::int64_t epoch, std::int64_t step, const std::vector<std::size_t>& indices,
           double loss);

 private:
  const int generation_;
  RankLog steps_;
  RankLog samples_;
};

}  // namespace example

#endif  // DDPRUN_WORKER_EXAMPLES_COMMON_STEP_LOG_H_
