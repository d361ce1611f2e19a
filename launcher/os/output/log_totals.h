// Totals of the workers' output since the agent's start: bytes read, lines not shown, bytes not
// stored.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_LOG_TOTALS_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_LOG_TOTALS_H_

#include <cstdint>

namespace ddprun {

struct LogTotals {
  std::uint64_t out_bytes = 0;  // read from the workers' stdout
  std::uint64_t err_bytes = 0;
  std::uint64_t out_lines_dropped = 0;  // because the terminal did not keep up
  std::uint64_t err_lines_dropped = 0;
  std::uint64_t file_bytes_dropped = 0;  // on a full disk, or for a file that was given up
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_LOG_TOTALS_H_
