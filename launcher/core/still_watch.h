// StillWatch: which of this node's workers have moved between two looks, for how long the others
// have not, and what the rendezvous is told of it.
//
// Pure: what was seen and the time go in. Belongs to the agent, which looks before each heartbeat.
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

// A worker that runs, as it stands now.
struct SeenWorker {
  LocalRank local_rank;
  int pid = 0;
  std::uint64_t moves = 0;  // another number: it has moved
  std::optional<std::int64_t> step{};
  std::string phase{};  // empty: training
  std::optional<CollectiveCall> inside{};
  std::vector<CollectiveCall> earlier{};  // as in StillWorker
  std::int64_t entered = 0;               // likewise
  bool names_phases = false;
  bool stepped = false;                          // it has finished a step
  bool silent = false;                           // it has told nothing since its start
  bool leaving = false;                          // it has said BYE
  std::map<std::string, std::uint64_t> begun{};  // how often each phase, but those of its start
};

// Of the process `pid`. Of one that is leaving nothing else is known.
SeenWorker SeenWorkerOf(const WorkerProgress& progress, int pid);

// The last collectives of these workers: of each process group the few that they entered last. A
// rank that has sent what it had may be in the next one already.
std::vector<EnteredCall> LastCallsOf(const std::vector<WorkerProgress>& workers);

// A thread that is in disk wait (state D). It has not run between two looks if it was switched out
// equally often.
struct DiskWait {
  int thread = 0;
  std::uint64_t switches = 0;  // so far; 0: not known
  std::string waits_for{};     // for people
  std::string process{};       // the name, where it is the first thread of another process

  bool IsThatOf(const DiskWait& before) const {
    return thread == before.thread && switches != 0 && switches == before.switches;
  }
};

// What the kernel knows of a process.
struct ProcessFacts {
  ProcessState state = ProcessState::kRunnable;
  Duration cpu{};             // used so far, by all of its threads
  std::int64_t io_bytes = 0;  // read and written so far
  // By thread id: time spent waiting for a CPU, without a wait in progress.
  std::map<int, Duration> waited{};
  std::map<int, Duration> wants{};  // by thread id, of runnable threads: CPU time so far
  std::string waits_for{};          // for people
  TimePoint read_at{};
  std::optional<DiskWait> disk{};  // of the first thread, else of another thread or process
  std::string tracer{};            // for people, where it is traced: "is held by gdb (pid 77)"
};

class StillWatch {
 public:
  // Asked of each worker once none of the node has moved for NodeProgress::kDetailsAfter.
  using FactsOf = std::function<ProcessFacts(int pid)>;

  // `heartbeat`: how far two looks are apart. Where they are much farther apart, this process was
  // stopped or starved, or the machine was suspended, and no time counts.
  explicit StillWatch(Duration heartbeat) : heartbeat_(heartbeat) {}

  // The workers of a generation are about to start.
  void Begin(TimePoint now) {
    *this = StillWatch(heartbeat_);
    begun_at_ = now;
  }

  NodeProgress Look(const std::vector<SeenWorker>& workers, TimePoint now, const FactsOf& facts);

 private:
  // What a process had used, at a look.
  struct Use {
    TimePoint at;
    Duration cpu;
    std::int64_t io_bytes;
  };
  struct Memory {
    int pid = 0;
    std::uint64_t moves = 0;
    bool leaving = false;
    TimePoint moved_at;                 // or when it said BYE
    std::optional<ProcessFacts> facts;  // of the first look that saw it still
    TimePoint facts_at;
    std::optional<ProcessFacts> last;              // of the last look
    ProcessState state = ProcessState::kRunnable;  // that was told of it
    std::string waits_for;                         // likewise
    std::map<std::string, std::uint64_t> begun;    // SeenWorker::begun
    std::deque<Use> uses;                          // from kBusyWindow ago on
    std::map<int, TimePoint> starved_since;        // by thread id: it wants to run, and does not
    Duration debugged{};                           // of the time that it has been still
    std::optional<TimePoint> excused_since;
  };
  // What does not count.
  struct Excuse {
    Duration time{};  // of StillWorker::still
    std::string why;  // HangExcuse::why, while it goes on; else empty

    bool now() const { return !why.empty(); }
  };

  bool WasAway(TimePoint now) const;
  // Of the workers that tell.
  void LookAtStill(const std::vector<SeenWorker>& workers, TimePoint now, const FactsOf& facts,
                   NodeProgress* progress);
  // Of those that have told nothing.
  void LookAtSilent(const std::vector<SeenWorker>& workers, TimePoint now, const FactsOf& facts,
                    NodeProgress* progress);
  // Workers that have said BYE. They may still hang in a static destructor or in a driver.
  void LookAtLeaving(const std::vector<SeenWorker>& workers, TimePoint now, const FactsOf& facts,
                     NodeProgress* progress);
  // Adds what the kernel says of a worker that is still. What does not count is the time under a
  // debugger, and the time one of its threads waited for a CPU, if that is more than half.
  Excuse Describe(const ProcessFacts& facts, TimePoint now, Memory* memory, StillWorker* worker);
  // Adds an excuse to what the rendezvous is told, if it has lasted longer than the one there.
  static void Tell(const Excuse& excuse, const StillWorker& worker, TimePoint now, Memory* memory,
                   NodeProgress* progress);
  // Which threads have not run since the last look, though they want to.
  static void FindStarved(const ProcessFacts& facts, Memory* memory);
  // How long the thread waited for a CPU that waited longest, since it was seen still first.
  static Duration LongestWait(const ProcessFacts& facts, const Memory& memory);
  // It used the CPU or did I/O lately. What it did before that is over.
  static bool IsBusy(const ProcessFacts& facts, TimePoint now, Memory* memory);
  // Its state, and what it waits for.
  static void DescribeState(const ProcessFacts& facts, Memory* memory, StillWorker* worker);

  Duration heartbeat_;
  std::optional<TimePoint> last_look_;
  std::map<LocalRank, Memory> memory_;
  bool names_phases_ = false;          // one of them has
  bool stepped_ = false;               // one of them has
  std::uint64_t moves_ = 1;            // NodeProgress::moves
  std::optional<TimePoint> begun_at_;  // Begin(), or the first look
  // The first of the latest looks that all came too late.
  std::optional<TimePoint> away_since_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_STILL_WATCH_H_
