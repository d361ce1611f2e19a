// RankServer: a process whose forks are the ranks of a test.
//
// An executed rank must load libtorch, and this takes longer than the work of most tests. The
// server loads libtorch once, and does nothing else with it. The server has one thread, so its
// forks may use libtorch.
#ifndef DDP_TESTS_UNIT_WORKER_SUPPORT_RANK_SERVER_H_
#define DDP_TESTS_UNIT_WORKER_SUPPORT_RANK_SERVER_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddp::test {

// The main() of a test program.
class RankServer {
 public:
  // Runs all tests. `argv`: of main(). From now on RunRanks() uses a server. The server ends with
  // this process.
  static int RunTests(int argc, char** argv);

  // True once RunTests() was called.
  static bool available();

  // Starts a rank that runs the tests of `filter`, with exactly this environment (NAME=value), and
  // with stdout and stderr in output.out and output.err. Returns its pid, a child of this process;
  // −1: it cannot be started.
  static pid_t StartRank(const std::string& filter, const std::vector<std::string>& environment,
                         const std::string& output);
};

}  // namespace ddp::test

#endif  // DDP_TESTS_UNIT_WORKER_SUPPORT_RANK_SERVER_H_
