// StillWatch: finds which workers of this node moved between two looks, and for how long the others
// have been still. Makes the heartbeat's report of both.
//
// Pure: observations and the time go in. Owned by WorkerWatch, which looks before each heartbeat.
#ifndef DDPRUN_LAUNCHER_CORE_STILL_WATCH_H_
#define DDPRUN_LAUNCHER_CORE_STILL_WATCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/worker_progress.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// The present progress of a running worker.
struct SeenWorker {
  LocalRank local_rank;
  int pid = 0;
  std::uint64_t moves = 0;  // changes with each move
  std::optional<std::int64_t> step{};
  std::string phase{};  // empty: training, or no phase is reported yet
  std::optional<CollectiveCall> inside{};
  std::vector<CollectiveCall> earlier{};  // as StillWorker::earlier
  std::int64_t entered = 0;               // as StillWorker::entered
  bool names_phases = false;              // as NodeProgress::names_phases
  bool stepped = false;                   // it has finished a step
  bool silent = false;                    // it has reported nothing since its start
  bool leaving = false;                   // it has sent BYE: it ends on purpose
  // How often each phase began. Without the phases init, restore and first_step of the start.
  std::map<std::string, std::uint64_t> begun{};
};

// Turns the progress of process `pid` into a SeenWorker. If the worker is leaving, sets only
// local_rank, pid and leaving.
SeenWorker SeenWorkerOf(const WorkerProgress& progress, int pid);

// The last collectives of these workers: the newest few of each process group. One would not be
// enough: a rank may already be in the next collective while a peer still waits in the one before.
std::vector<EnteredCall> LastCallsOf(const std::vector<WorkerProgress>& workers);

// A thread in disk wait (state D). If two looks find the same `switches`, the thread has not run
// between them.
struct DiskWait {
  int thread = 0;
  std::uint64_t switches = 0;  // context switches so far; 0: not known
  std::string waits_for{};     // for people
  std::string process{};       // name of its process, if that is not the worker's own

  bool IsThatOf(const DiskWait& before) const {
    return thread == before.thread && switches != 0 && switches == before.switches;
  }
};

// The facts of a rank from /proc (launcher/agent/process_facts.h).
struct ProcessFacts {
  ProcessState state = ProcessState::kRunnable;
  Duration cpu{};             // used so far, by all processes
  std::int64_t io_bytes = 0;  // read and written by all processes, except by recv() and send()
  // Bytes that each TCP socket has carried so far, by the socket's inode. nullopt: not known.
  std::optional<std::map<std::uint64_t, std::int64_t>> tcp_bytes{};
  // Time that each thread has waited for a CPU, by thread id. A wait in progress is not included.
  std::map<int, Duration> waited{};
  std::map<int, Duration> wants{};  // CPU time so far of each runnable thread, by thread id
  std::string waits_for{};          // for people
  TimePoint read_at{};
  std::optional<DiskWait> disk{};  // of the main thread, else of another thread or process
  std::string tracer{};            // for people, if it is traced: "is held by gdb (pid 77)"
};

class StillWatch {
 public:
  // Look() calls it for each worker if no worker that reports has moved for
  // NodeProgress::kDetailsAfter (1 s). Exception: for a worker that has said BYE, each Look()
  // calls it if this worker has not moved for that time, even if other workers move.
  using FactsOf = std::function<ProcessFacts(int pid)>;

  // `heartbeat`: the intended time between two looks. If the real time was much longer, this
  // process was stopped or got no CPU; then no time counts as still.
  explicit StillWatch(Duration heartbeat) : heartbeat_(heartbeat) {}

  // The workers of a generation are about to start.
  void Begin(TimePoint now) {
    *this = StillWatch(heartbeat_);
    begun_at_ = now;
  }

  NodeProgress Look(const std::vector<SeenWorker>& workers, TimePoint now, const FactsOf& facts);

 private:
  // What a rank had used at the time of a look.
  struct Use {
    TimePoint at;
    Duration cpu;
    std::int64_t io_bytes;
  };
  struct Memory {
    int pid = 0;
    std::uint64_t moves = 0;
    bool leaving = false;
    TimePoint moved_at;                 // its last move, or its BYE
    std::optional<ProcessFacts> facts;  // of the first look that found the worker still
    TimePoint facts_at;
    std::optional<ProcessFacts> last;              // of the last look
    ProcessState state = ProcessState::kRunnable;  // as last reported
    std::string waits_for;                         // as last reported
    std::map<std::string, std::uint64_t> begun;    // SeenWorker::begun
    std::deque<Use> uses;                          // of the last kBusyWindow
    std::int64_t tcp_bytes = 0;                    // carried since the first look
    std::map<int, TimePoint> starved_since;        // threads that are runnable but do not run, by
                                                   // thread id
    Duration debugged{};                           // part of the still time under a debugger
    std::optional<TimePoint> excused_since;
  };
  // Still time that does not count.
  struct Excuse {
    Duration time{};  // part of StillWorker::still
    std::string why;  // HangExcuse::why while the excuse lasts, else empty

    bool now() const { return !why.empty(); }
  };

  bool WasAway(TimePoint now) const;
  // Handles workers that report their progress.
  void LookAtStill(const std::vector<SeenWorker>& workers, TimePoint now, const FactsOf& facts,
                   NodeProgress* progress);
  // Handles workers that have reported nothing.
  void LookAtSilent(const std::vector<SeenWorker>& workers, TimePoint now, const FactsOf& facts,
                    NodeProgress* progress);
  // Handles workers that have said BYE. They may still hang in a static destructor or in a driver.
  void LookAtLeaving(const std::vector<SeenWorker>& workers, TimePoint now, const FactsOf& facts,
                     NodeProgress* progress);
  // Adds the facts from /proc about a still worker. Returns the time that does not count: time
  // under a debugger, and time that a thread waited for a CPU, if that is more than half of the
  // time since the worker was first seen still.
  Excuse Describe(const ProcessFacts& facts, TimePoint now, Memory* memory, StillWorker* worker);
  // Adds the excuse to `progress`, if it has lasted longer than the one already there.
  static void Tell(const Excuse& excuse, const StillWorker& worker, TimePoint now, Memory* memory,
                   NodeProgress* progress);
  // Finds runnable threads that have not run since the last look.
  static void FindStarved(const ProcessFacts& facts, Memory* memory);
  // The longest time that one thread waited for a CPU since the worker was first seen still.
  static Duration LongestWait(const ProcessFacts& facts, const Memory& memory);
  // True if within kBusyWindow the worker used more than 5% of a CPU or did more than 64 KiB of
  // I/O.
  static bool IsBusy(const ProcessFacts& facts, TimePoint now, Memory* memory);
  // Fills in the worker's state and what it waits for.
  static void DescribeState(const ProcessFacts& facts, Memory* memory, StillWorker* worker);

  Duration heartbeat_;
  std::optional<TimePoint> last_look_;
  std::map<LocalRank, Memory> memory_;
  bool names_phases_ = false;          // NodeProgress::names_phases
  bool stepped_ = false;               // a worker has finished a step
  std::uint64_t moves_ = 1;            // NodeProgress::moves
  std::optional<TimePoint> begun_at_;  // Begin(), or the first look
  // The first of the present consecutive late looks.
  std::optional<TimePoint> away_since_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_STILL_WATCH_H_
