// A line for each finished training step, for tests that count which steps were done and when.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_STEP_LOG_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_STEP_LOG_H_

#include <cstdint>
#include <string>

namespace mnist {

// Appends to directory/rank<R>.log, one write(2) a line, so that a line is there whole or not at
// all when the process is killed.
class StepLog {
 public:
  // Creates the directory; empty: no log. Throws std::runtime_error.
  StepLog(const std::string& directory, int rank, int generation);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  void Append(std::int64_t epoch, std::int64_t step, std::size_t first_sample, double loss);

 private:
  const int generation_;
  std::string path_;
  int fd_ = -1;
};

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_STEP_LOG_H_
