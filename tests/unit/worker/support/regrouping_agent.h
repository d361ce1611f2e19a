// The agent of a job whose ranks run in place, as far as they can tell: it hears that they stay,
// ends generations, and gives the ranks that have left their places in the next one.
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

// A thread of the test's own process. It ends with the ranks: when all have hung up.
class RegroupingAgent {
 public:
  struct Options {
    int world_size = 2;  // of the first generation; rank r is the r-th to connect of none other
    int generations = 2;
    // Whether a generation is ended as soon as all of its ranks are in the group. Else it is when a
    // rank has hung up.
    bool ends_them = false;
    std::string output;  // gets what survivors write from the second generation on
  };

  explicit RegroupingAgent(Options options);
  ~RegroupingAgent();
  RegroupingAgent(const RegroupingAgent&) = delete;
  RegroupingAgent& operator=(const RegroupingAgent&) = delete;

  // For the ranks' environment.
  Environment environment() const;

  // What all have said, in the order of arrival, without what comes with each step. After the end.
  const std::vector<std::string>& heard();

 private:
  struct Rank {
    ddprun::UniqueFd socket;
    bool stays = false;
    bool waits = false;
    bool trains = false;  // it has said a step
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
