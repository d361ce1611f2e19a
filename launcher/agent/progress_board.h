// ProgressBoard: how far each worker of this node is, as the workers tell it.
//
// Belongs to the agent and its loop's thread. A worker that has told nothing is not on it.
#ifndef DDPRUN_LAUNCHER_AGENT_PROGRESS_BOARD_H_
#define DDPRUN_LAUNCHER_AGENT_PROGRESS_BOARD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "launcher/core/progress_watch.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class ProgressBoard {
 public:
  // The pid of a worker that runs; nullopt: it does not.
  using PidOf = std::function<std::optional<int>(LocalRank)>;

  explicit ProgressBoard(Duration heartbeat) : heartbeat_(heartbeat), watch_(heartbeat) {}

  // The workers of a generation are about to start.
  void Begin();
  void OnStep(LocalRank local_rank, std::int64_t step);
  // control::kPhase..., or a name that the program has chosen.
  void OnPhase(LocalRank local_rank, const std::string& name);
  // It said something else, from which it follows that it goes on.
  void OnMove(LocalRank local_rank);
  // It has said BYE: nothing more is expected of it.
  void OnBye(LocalRank local_rank);

  // Looks at those that run; before each heartbeat.
  NodeProgress Look(const PidOf& pid_of, TimePoint now);

 private:
  struct Entry {
    std::uint64_t moves = 0;
    std::optional<std::int64_t> step;
    std::string phase;
    bool bye = false;
  };

  const Duration heartbeat_;
  std::map<LocalRank, Entry> entries_;
  ProgressWatch watch_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_PROGRESS_BOARD_H_
