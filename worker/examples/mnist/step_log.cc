#include "worker/examples/mnist/step_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace mnist {

StepLog::StepLog(const std::string& directory, int rank, int generation) : generation_(generation) {
  if (directory.empty()) return;
  path_ = directory + "/rank" + std::to_string(rank) + ".log";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw std::runtime_error("cannot open the step log " + path_ + ": " + std::strerror(errno));
  }
}

StepLog::~StepLog() {
  if (fd_ >= 0) close(fd_);
}

void StepLog::Append(std::int64_t epoch, std::int64_t step, std::size_t first_sample, double loss) {
  if (fd_ < 0) return;
  char line[128];
  const int size = std::snprintf(line, sizeof(line), "%d %lld %lld %zu %.6f\n", generation_,
                                 static_cast<long long>(epoch), static_cast<long long>(step),
                                 first_sample, loss);
  if (write(fd_, line, static_cast<std::size_t>(size)) != size) {
    throw std::runtime_error("cannot write the step log " + path_ + ": " + std::strerror(errno));
  }
}

}  // namespace mnist
