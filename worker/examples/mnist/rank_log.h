// A line for each finished training step, for tests that count which steps were done and when.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_RANK_LOG_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_RANK_LOG_H_

#include <string>

namespace mnist {

// Appends to directory/rank<R>.log, one write(2) a line, so that a line is there whole or not at
// all when the process is killed.
class RankLog {
 public:
  // Creates the directory; empty: no log. Throws std::runtime_error.
  RankLog(const std::string& directory, int rank);
  ~RankLog();
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;

  bool enabled() const { return fd_ >= 0; }
  // `line`: without its end.
  void Append(std::string line);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_RANK_LOG_H_
