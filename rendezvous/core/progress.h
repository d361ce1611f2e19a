// What an agent sees of the processes of its node: how far its workers are, which is what a job's
// hang is told by, and which of them SIGKILL did not end. Plain values.
#ifndef DDPRUN_RENDEZVOUS_CORE_PROGRESS_H_
#define DDPRUN_RENDEZVOUS_CORE_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

// What keeps a process from running, as the kernel says.
enum class ProcessState {
  kRunnable,  // it runs, sleeps or waits for a lock or a socket
  kStopped,   // by a signal such as SIGSTOP
  kTraced,    // by a debugger
  kDiskWait,  // in a system call that no signal interrupts (state D)
};

// A collective that a worker has entered and not completed.
struct CollectiveCall {
  std::string group{};        // name of the process group
  std::int64_t sequence = 0;  // counts the collectives of the group, the same on every rank
  std::string operation{};    // "all_reduce"
  std::int64_t bytes = 0;
  std::optional<int> bucket{};  // of gradients, where it averages one

  bool operator==(const CollectiveCall&) const = default;
};

// One of the last collectives of a node's workers, when they ended.
struct EnteredCall {
  LocalRank local_rank;  // the lowest of those that entered it
  int workers = 0;       // how many did
  CollectiveCall call;

  static constexpr std::size_t kMaxOfANode = 16;

  bool operator==(const EnteredCall&) const = default;
};

// A worker is busy where it used the CPU or did I/O this long ago or later.
inline constexpr Duration kBusyWindow = std::chrono::seconds(10);

// A worker that has not moved for a while.
struct StillWorker {
  LocalRank local_rank;
  int pid = 0;
  Duration still{};                    // since it moved last
  std::optional<std::int64_t> step{};  // the last that it finished
  std::string phase{};                 // as the program names it; empty: training
  ProcessState state = ProcessState::kRunnable;
  bool busy = false;                       // kBusyWindow
  std::optional<CollectiveCall> inside{};  // the newest
  // Of the same group, entered before `inside` and not completed either, in the order of their
  // numbers; at most kMaxEarlier. Buckets of gradients are averaged at once.
  std::vector<CollectiveCall> earlier{};
  // The number of the group's collective that it entered last, where it has completed those after
  // `inside`; else 0.
  std::int64_t entered = 0;
  std::string waits_for{};  // for people: system call, kernel function, file

  static constexpr std::size_t kMaxEarlier = 3;

  bool operator==(const StillWorker&) const = default;
};

// Why the time in which a node's workers stand still does not count now.
struct HangExcuse {
  std::optional<LocalRank> local_rank{};  // not set: the agent of the node itself
  int pid = 0;                            // of the worker; 0: of none
  std::string why{};                      // for people: "is held by gdb (pid 77)"
  Duration lasts{};                       // so far

  bool operator==(const HangExcuse&) const = default;
};

// Of the workers of a node that tell how far they are, and have not ended or said that they will.
struct NodeProgress {
  int workers = 0;                    // 0: none tells, and the node is not judged
  Duration still{};                   // since the last of them moved; the time that counts
  std::vector<std::string> phases{};  // they are in, each once, sorted; at most kMaxPhases
  // A debugger has one of them, the machine was suspended or starved, or the agent itself did not
  // run: what passed meanwhile is not in `still`, and no interval is learned.
  bool excused = false;
  // Their program says what it does beside training: what takes longer than a step has a name.
  bool names_phases = false;
  // One of them has finished a step, also where the program reports no number of it.
  bool stepped = false;
  // Those that have been still for kDetailsAfter or longer; at most kMaxStillWorkers.
  std::vector<StillWorker> still_workers{};
  // Workers that run and have told nothing since their start; `still`: since then. Told while no
  // other worker of the node moves; at most kMaxStillWorkers.
  std::vector<StillWorker> silent_workers{};
  // As `excused`, for the silent ones.
  bool silent_excused = false;
  // Another number: one of them has moved. 0: not told, and `still` alone says it.
  std::uint64_t moves = 0;
  // Phases that began and ended since the node told last, each once, sorted; at most kMaxPassed.
  std::vector<std::string> phases_passed{};

  // What lies behind `excused` or `silent_excused`; of several excuses the one that lasts longest.
  std::optional<HangExcuse> excuse{};
  // Workers that have said BYE and run on; `still`: since then. At most kMaxStillWorkers.
  std::vector<StillWorker> leaving_workers{};

  static constexpr Duration kDetailsAfter = std::chrono::seconds(1);
  static constexpr std::size_t kMaxPhases = 4;
  static constexpr std::size_t kMaxPassed = 16;
  static constexpr std::size_t kMaxStillWorkers = 256;

  bool operator==(const NodeProgress&) const = default;
};

// A process of the job that is still there after SIGKILL: it is in a system call that no signal
// interrupts, mostly for a disk or a file server. It may hold what the next worker needs (a GPU, a
// port, a file), and a write of its own may yet come to its end.
struct StuckProcess {
  std::optional<Rank> rank{};  // that it had; not set: a worker had left it behind
  int pid = 0;
  ProcessState state = ProcessState::kRunnable;
  std::string waits_for{};  // for people: system call and file, or kernel function
  Duration stuck{};         // since SIGKILL, when this was told

  bool operator==(const StuckProcess&) const = default;
};

// "rank 3 (pid 77) is still there 12.1 s after SIGKILL, in disk wait (D), in write(/data/log)".
std::string Describe(const StuckProcess& process);

// All of a node.
struct StuckProcesses {
  // Counts the changes of the list, in the agent's life: a lower one is older. 0: none ever was.
  std::uint32_t report = 0;
  std::vector<StuckProcess> processes{};  // at most kMost

  static constexpr std::size_t kMost = 64;

  // As it is when so much more time has passed.
  StuckProcesses After(Duration passed) const;

  bool operator==(const StuckProcesses&) const = default;
};

// The first of them, and how many others there are. Empty: there is none.
std::string Describe(const StuckProcesses& stuck);

// How many ranks of a generation have come to torch's store, while not all have.
struct StoreArrivals {
  int arrived = 0;
  std::vector<Rank> missing{};  // the lowest that have not; none: it is not known which
  static constexpr std::size_t kMostMissing = 16;

  bool operator==(const StoreArrivals&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_PROGRESS_H_
