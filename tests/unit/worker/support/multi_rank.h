// Runs a job of several ranks inside a test, each rank a process of its own.
//
// The usual form: the test runs itself again, once for each rank.
//
//   TEST(ThingTest, DoesThings) {
//     if (StartedRanks(2)) return;       // in the test's own process: starts and checks the ranks
//     ddp::Context ctx = ddp::init();    // in each rank
//     EXPECT_EQ(...);
//   }
//
// A rank is executed, or forked by the RankServer. The test never forks a rank: if libtorch has
// started threads in a process, a fork of the process must not use libtorch.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_MULTI_RANK_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_MULTI_RANK_H_

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddp::test {

using Environment = std::map<std::string, std::string>;

struct RankResult {
  int exit_code = -1;  // -1: a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
};

struct Job {
  int world_size = 1;
  // The command of a rank; default: the running test.
  std::function<std::vector<std::string>(int rank)> command;
  Environment environment;  // of every rank, besides what a launcher sets
  // The time limit. Ranks that have not ended then are killed, and their result has signal 9.
  std::chrono::seconds limit{60};
};

// Runs all ranks to their end on 127.0.0.1, with a free port.
std::vector<RankResult> RunRanks(const Job& job);

// In a rank: false. Otherwise runs the current test once for each rank, and returns true. Adds a
// failure, with the rank's output, for each rank that did not end with 0.
bool StartedRanks(int world_size, const Environment& environment = {});

// Whether this process is a rank.
bool InRank();

// A port on 127.0.0.1 that the kernel gives to no other process as long as this lives. The socket
// is bound, and does not listen before Listen().
class HeldPort {
 public:
  HeldPort();
  ~HeldPort();
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  void Listen();  // from now on no other process can listen there
  int port() const { return port_; }
  std::string text() const { return std::to_string(port_); }

 private:
  int fd_ = -1;
  int port_ = 0;
};

// How many connections were refused so far in this network namespace (Tcp: AttemptFails). The
// number grows when a client tries before its server listens. -1: the kernel does not say it.
long RefusedConnections();

std::string ReadFile(const std::string& path);

// The names in `folder`, sorted.
std::vector<std::string> FilesIn(const std::string& folder);

// The number of occurrences of `text` in the stderr of all ranks.
int CountInErr(const std::vector<RankResult>& ranks, const std::string& text);

}  // namespace ddp::test

#endif  // DDPRUN_TESTS_UNIT_WORKER_SUPPORT_MULTI_RANK_H_
