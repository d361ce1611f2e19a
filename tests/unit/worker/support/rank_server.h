// The process whose forks are the ranks of a test.
//
// A rank that is executed loads libtorch, which takes longer than what most tests do with it. The
// server loads it once, has one thread, and does nothing else with it, so its forks may use it.
#ifndef DDP_TESTS_UNIT_WORKER_SUPPORT_RANK_SERVER_H_
#define DDP_TESTS_UNIT_WORKER_SUPPORT_RANK_SERVER_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddp::test {

// What main() of a test program is.
class RankServer {
 public:
  // Runs all tests. `argv` is main's. From here on RunRanks uses a server, which ends with this
  // process.
  static int RunTests(int argc, char** argv);

  // Whether RunTests was called.
  static bool available();

  // Starts a rank that runs the tests of `filter`, with this environment (NAME=value) and no other,
  // and with stdout and stderr in the files output.out and output.err. A child of this process;
  // −1 where it cannot be started.
  static pid_t StartRank(const std::string& filter, const std::vector<std::string>& environment,
                         const std::string& output);
};

}  // namespace ddp::test

#endif  // DDP_TESTS_UNIT_WORKER_SUPPORT_RANK_SERVER_H_
