#include "worker/examples/mnist/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace mnist {

RankLog::RankLog(const std::string& directory, int rank) {
  if (directory.empty()) return;
  path_ = directory + "/rank" + std::to_string(rank) + ".log";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw std::runtime_error("cannot open the log " + path_ + ": " + std::strerror(errno));
  }
}

RankLog::~RankLog() {
  if (fd_ >= 0) close(fd_);
}

void RankLog::Append(std::string line) {
  if (fd_ < 0) return;
  line += '\n';
  if (write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("cannot write the log " + path_ + ": " + std::strerror(errno));
  }
}

}  // namespace mnist
