// RegroupingAgent: the agent of a job whose ranks run in place, as the ranks see it. It reads
// STAYS and ends generations. It tells each rank that has left a generation its place in the next.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_REGROUPING_AGENT_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_REGROUPING_AGENT_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "worker/contract/unique_fd.h"

namespace ddp::test {

// Runs on a thread of the test's process. Ends when all ranks have closed their connections.
class RegroupingAgent {
 public:
  struct Options {
    // Of the first generation. In later generations the processes have their ranks in the order in
    // which they connected.
    int world_size = 2;
    int generations = 2;
    // True: ends a generation as soon as all of its ranks have sent STAYS and made a step. False:
    // when a rank has closed its connection.
    bool ends_them = false;
    // In this generation the world size has one more rank, which never comes: rank 0 if
    // `absent_first`, else the last one. The generation ends when all others have sent STAYS.
    int incomplete = -1;
    bool absent_first = false;
    std::string output;  // gets the output of survivors from the second generation on
  };

  explicit RegroupingAgent(Options options);
  ~RegroupingAgent();
  RegroupingAgent(const RegroupingAgent&) = delete;
  RegroupingAgent& operator=(const RegroupingAgent&) = delete;

  // The variables for the ranks.
  Environment environment() const;

  // All messages, in the order of arrival, without STEP. Waits for the end of the job.
  const std::vector<std::string>& heard();

 private:
  struct Rank {
    ddprun::UniqueFd socket;
    bool stays = false;
    bool waits = false;
    bool trains = false;  // it has reported a step
  };

  void Run();
  void Hear(Rank* rank);
  void EndGeneration();
  void BeginGeneration();
  void Send(const Rank& rank, const std::string& packet, const std::vector<int>& descriptors = {});
  bool All(bool Rank::*said) const;

  const Options options_;
  const ddprun::TempDir folder_;
  const HeldPort ports_[2];
  ddprun::UniqueFd listener_;
  std::vector<Rank> ranks_;
  int connected_ = 0;
  int generation_ = 0;
  bool ending_ = false;
  std::vector<std::string> heard_;
  std::thread thread_;
};

}  // namespace ddp::test

#endif  // DDPRUN_TESTS_UNIT_WORKER_SUPPORT_REGROUPING_AGENT_H_
