#include "worker/examples/common/step_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace example {

RankLog::RankLog(const std::string& directory, int rank) {
  if (directory.empty()) return;
  path_ = directory + "/rank" + std::to_string(rank) + ".log";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  fd_.reset(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd_.valid()) {
    throw std::runtime_error("cannot open the log " + path_ + ": " + std::strerror(errno));
  }
}

void RankLog::Append(std::string line) {
  if (!fd_.valid()) return;
  line += '\n';
  if (write(fd_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("cannot write the log " + path_ + ": " + std::strerror(errno));
  }
}

void StepLog::Add(std::int64_t epoch, std::int64_t step, const std::vector<std::size_t>& indices,
                  double loss) {
  std::ostringstream line;
  line << generation_ << ' ' << epoch << ' ' << step << ' ' << indices.front() << ' '
       << std::setprecision(std::numeric_limits<double>::max_digits10) << loss;
  steps_.Append(line.str());
  if (!samples_.enabled()) return;
  std::ostringstream samples;
  samples << generation_ << ' ' << epoch << ' ' << step;
  for (const std::size_t index : indices) samples << ' ' << index;
  samples_.Append(samples.str());
}

}  // namespace example
