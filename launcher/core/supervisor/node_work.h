// NodeWork: what a node does in one generation. A value; the next assignment replaces it whole.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_NODE_WORK_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_NODE_WORK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/supervisor/actions.h"
#include "launcher/core/supervisor/events.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct NodeWork {
  struct Worker {
    int pid = 0;
    bool alive = false;     // also while it is being started
    bool starting = false;  // the agent has yet to answer SpawnWorkers for it
    bool speaks = false;    // the control socket, and not of its progress alone
    bool stays = false;     // it can leave the generation instead of ending
    std::optional<std::int64_t> step;
    std::int64_t checkpoint_failures = 0;  // the highest number that it told
    std::string error_kind;
    std::string error_text;
    // And its error file has yet to be read.
    std::optional<SupervisorEvents::WorkerEnded> ended;
  };
  struct Folders {
    bool ready = false;  // or `error` says why not
    LocalRank local_rank;
    std::string error;
  };

  // Of torch, that this node serves for the generation.
  enum class Store { kNone, kOpening, kOpen, kFailed };

  Generation generation{-1};  // before the first assignment
  Assignment assignment;
  Folders folders;
  Store store = Store::kNone;
  std::string why_no_store;                // kFailed
  std::string store_elsewhere;             // where a worker looks for it; empty: none does
  std::vector<Worker> workers;             // by local rank
  bool tells = false;                      // one of them has told how far it is
  std::optional<std::int64_t> checkpoint;  // the newest that was reported
  std::int64_t last_ended_ms = 0;          // wall clock, when a worker ended last
  std::optional<Duration> start;           // StartMeasured
  // Those that hang and were told to end, and when they are killed.
  std::vector<LocalRank> hung;
  std::optional<TimePoint> kill_hung_at;
  std::optional<TimePoint> leave_until;  // when workers that were asked to leave are ended
  // What was said, to be said again on the next session.
  bool acknowledged = false;
  std::vector<WorkerExited> exits;
  std::optional<Stopped> stopped;

  Rank RankOf(LocalRank local_rank) const {
    return Rank{assignment.first_rank.value + local_rank.value};
  }
  Worker* Find(LocalRank local_rank);                              // nullptr: there is none
  std::vector<LocalRank> Alive() const;                            // or being started
  std::vector<LocalRank> AliveHung() const;                        // of `hung`
  std::vector<LocalRank> AliveOthers(bool that_stay) const;        // not of `hung`
  std::vector<LocalRank> Speaking() const;                         // and alive
  std::vector<LocalRank> WithProgram() const;                      // alive, and not being started
  bool AnyStarts() const;                                          // is being started
  std::string Describe(const std::vector<LocalRank>& some) const;  // for people, with their pids
  bool AwaitsErrorFile() const;
  std::optional<std::int64_t> NewestStep() const;
  // Nothing more is expected of any worker.
  void Abandon();

  // What the rendezvous is told of a worker's end.
  WorkerExited ReportOf(LocalRank local_rank, ExitStatus status) const;
  WorkerExited ReportOf(const SupervisorEvents::WorkerEnded& ended,
                        const std::string& error_file_text) const;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_NODE_WORK_H_
