// LogPlaces: which agent of a job had which ranks in each generation, and the folder of each
// agent's log files. Bounded: it knows only the newest generations.
//
// A value that belongs to a ServedJob. Used only from within JobLoop, by one thread at a time.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_LOG_PLACES_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_LOG_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/core/messages/logs.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/nodes/roster.h"

namespace ddprun {

class LogPlaces {
 public:
  static constexpr std::size_t kMaxGenerations = 16;
  static constexpr std::size_t kMaxPlaces = 65'536;  // in all generations except the newest

  // A rank's agent and log folder.
  struct Place {
    AgentId agent_id;
    std::string host;
    std::string folder;  // the run's folder on that host; empty: not known
    LocalRank local_rank;
  };

  void OnJoin(AgentId agent_id, std::string folder);
  void OnGone(AgentId agent_id);
  // May be called again for the same generation. `members`: in the order of their ranks.
  void OnFormed(Generation generation, const std::vector<NodeRecord>& members);
  void OnStarted(Generation generation);

  // The newest generation whose workers were started; nullopt: none.
  std::optional<Generation> newest_started() const { return started_; }
  // The oldest known generation; nullopt: none.
  std::optional<Generation> oldest() const;
  // nullopt: the generation is not known, or was not started.
  std::optional<int> WorldSize(Generation generation) const;
  // nullopt: the generation is not known, or has no such rank.
  std::optional<Place> Find(Generation generation, Rank rank) const;

 private:
  struct Node {
    AgentId agent_id;
    Rank first_rank;
    int workers = 0;
    std::string host;
  };
  struct Formed {
    Generation generation;
    std::vector<Node> nodes;  // by rank
  };
  struct Agent {
    std::string folder;
    bool here = false;
    int generations = 0;  // that use it, in formed_
  };

  const Formed* Of(Generation generation) const;
  void ForgetOldest();
  void EraseIfUnused(AgentId agent_id);

  std::deque<Formed> formed_;  // oldest first
  std::size_t places_ = 0;     // in formed_
  std::optional<Generation> started_;
  // Agents that are in the job or used in formed_; by AgentId.
  std::unordered_map<std::uint64_t, Agent> agents_;
};

// "n2:/logs/job_x/attempt_3/0/stderr.log"; for people.
std::string WhereText(const LogPlaces::Place& place, const LogSource& source);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_LOG_PLACES_H_
