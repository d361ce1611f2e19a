// NodeWork: the work of a node in one generation. A value; the next assignment replaces all of it.
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
    bool alive = false;     // true while it is being started, too
    bool starting = false;  // the agent has not answered SpawnWorkers for it
    bool speaks = false;    // its messages show that it also reads (WorkerSpoke::listens)
    bool saves = true;      // false: it has sent SAVES=0: it cannot make a checkpoint
    bool stays = false;     // it can leave the generation without ending
    std::optional<std::int64_t> step;
    std::int64_t checkpoint_failures = 0;  // the highest count that it reported
    std::string error_kind;
    std::string error_text;
    // Set when the worker has ended and its error file is not read yet.
    std::optional<SupervisorEvents::WorkerEnded> ended;
  };
  struct Folders {
    bool ready = false;  // or `error` has the reason
    LocalRank local_rank;
    std::string error;
  };

  // torch's store, if this node serves it for the generation.
  enum class Store { kNone, kOpening, kOpen, kFailed };

  Generation generation{-1};  // before the first assignment
  Assignment assignment;
  Folders folders;
  Store store = Store::kNone;
  std::string why_no_store;                // kFailed
  std::string store_elsewhere;             // StoreSoughtElsewhere::where; empty: did not come
  std::vector<Worker> workers;             // by local rank
  bool tells = false;                      // a worker has reported progress
  bool can_stand_by = false;               // a worker has shown that its program can stand by
  bool standbys_ready = false;             // StandbysStarted came; for the next generation
  std::optional<std::int64_t> checkpoint;  // step of the newest checkpoint that a worker reported
  std::int64_t last_ended_ms = 0;          // wall clock time of the last worker's end
  std::optional<Duration> start;           // StartMeasured
  // The hanging workers that were told to end, and when they get SIGKILL.
  std::vector<LocalRank> hung;
  std::optional<TimePoint> kill_hung_at;
  std::optional<TimePoint> leave_until;  // when to end workers that were asked to leave
  // The messages of this generation, repeated on each new session.
  bool acknowledged = false;
  std::vector<WorkerExited> exits;
  std::optional<Stopped> stopped;

  Rank RankOf(LocalRank local_rank) const {
    return Rank{assignment.first_rank.value + local_rank.value};
  }
  Worker* Find(LocalRank local_rank);                              // nullptr: no such worker
  std::vector<LocalRank> Alive() const;                            // starting ones included
  std::vector<LocalRank> AliveHung() const;                        // of `hung`
  std::vector<LocalRank> AliveOthers(bool that_stay) const;        // not of `hung`
  std::vector<LocalRank> AbleToSave() const;                       // speaks, saves, and is alive
  std::vector<LocalRank> WithProgram() const;                      // alive and not starting
  bool AnyStarts() const;                                          // any worker is starting
  std::string Describe(const std::vector<LocalRank>& some) const;  // for people, with pids
  bool AwaitsErrorFile() const;
  // True: the next generation can start while a worker of this one is exiting. This needs programs
  // that can stay, and the agent's store: then no worker listens on a port that the next worker
  // needs.
  bool MayBeExiting() const;
  std::optional<std::int64_t> NewestStep() const;
  // Call it when the workers are lost or given up: expects nothing of them any more.
  void Abandon();

  // The report of a worker's end to the rendezvous.
  WorkerExited ReportOf(LocalRank local_rank, ExitStatus status) const;
  WorkerExited ReportOf(const SupervisorEvents::WorkerEnded& ended,
                        const std::string& error_file_text) const;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_NODE_WORK_H_
