// What an agent observes of its node's processes: the progress of its workers, and processes that
// SIGKILL did not end. The rendezvous judges hangs from the progress. Plain values.
#ifndef DDPRUN_RENDEZVOUS_CORE_PROGRESS_H_
#define DDPRUN_RENDEZVOUS_CORE_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

// The state of a process, from the kernel.
enum class ProcessState {
  kRunnable,  // runs, sleeps, or waits for a lock or a socket
  kStopped,   // by a signal such as SIGSTOP
  kTraced,    // by a debugger
  kDiskWait,  // in a system call that no signal interrupts (state D)
};

// A collective that a worker has entered.
struct CollectiveCall {
  std::string group{};        // name of the process group
  std::int64_t sequence = 0;  // number within the group, equal on every rank
  std::string operation{};    // "all_reduce"
  std::int64_t bytes = 0;
  std::optional<int> bucket{};  // gradient bucket that it averages, if any

  bool operator==(const CollectiveCall&) const = default;
};

// One of the last collectives that a node's workers entered before they ended.
struct EnteredCall {
  LocalRank local_rank;  // the lowest worker that entered it
  int workers = 0;       // number of workers that entered it
  CollectiveCall call;

  static constexpr std::size_t kMaxOfANode = 16;

  bool operator==(const EnteredCall&) const = default;
};

// A worker that used the CPU or did I/O within this time is busy.
inline constexpr Duration kBusyWindow = std::chrono::seconds(10);

// A worker that has not moved for some time.
struct StillWorker {
  LocalRank local_rank;
  int pid = 0;
  Duration still{};                    // since its last move
  std::optional<std::int64_t> step{};  // last finished step
  std::string phase{};                 // as the program names it; empty: training
  ProcessState state = ProcessState::kRunnable;
  bool busy = false;                       // see kBusyWindow
  std::optional<CollectiveCall> inside{};  // newest unfinished collective
  // Unfinished collectives of the same group, entered before `inside`, by number; at most
  // kMaxEarlier. Several gradient buckets are averaged at the same time.
  std::vector<CollectiveCall> earlier{};
  // The number of the newest collective that the worker entered in the group of `inside`, if this
  // collective is completed and later than `inside`; else 0.
  std::int64_t entered = 0;
  std::string waits_for{};  // for people: system call with file, or kernel function

  static constexpr std::size_t kMaxEarlier = 3;

  bool operator==(const StillWorker&) const = default;
};

// Why the present standstill of a node's workers does not count.
struct HangExcuse {
  std::optional<LocalRank> local_rank{};  // not set: the agent of the node itself
  int pid = 0;                            // of the worker; 0: of no worker
  std::string why{};                      // for people: "is held by gdb (pid 77)"
  Duration lasts{};                       // so far

  bool operator==(const HangExcuse&) const = default;
};

// The progress of a node's workers that report progress and have neither ended nor sent BYE (their
// last message before they exit).
struct NodeProgress {
  int workers = 0;                    // 0: none reports
  Duration still{};                   // since one of them moved; excused time does not count
  std::vector<std::string> phases{};  // their phases, each once, sorted; at most kMaxPhases
  // True if a debugger holds a worker, the machine was suspended or overloaded, or the agent itself
  // did not run. That time is not part of `still`, and HangWatch does not learn from it.
  bool excused = false;
  // The program names its phases, so work that takes longer than a step has a phase of its own.
  bool names_phases = false;
  // A worker has finished a step, even if the program reports no step numbers.
  bool stepped = false;
  // Sent once none of these workers has moved for kDetailsAfter; at most kMaxStillWorkers.
  std::vector<StillWorker> still_workers{};
  // Running workers that have reported nothing since their start; `still`: since their start. Sent
  // while no other worker of the node moves; at most kMaxStillWorkers.
  std::vector<StillWorker> silent_workers{};
  // Like `excused`, for the silent workers.
  bool silent_excused = false;
  // Changes with every move of a worker. 0: not reported; then only `still` shows that a worker
  // moved.
  std::uint64_t moves = 0;
  // Phases that began and ended since the last report, each once, sorted; at most kMaxPassed.
  std::vector<std::string> phases_passed{};

  // The reason for `excused` or `silent_excused`; of several, the longest excuse.
  std::optional<HangExcuse> excuse{};
  // Workers that have sent BYE and still run; `still`: since BYE. At most kMaxStillWorkers.
  std::vector<StillWorker> leaving_workers{};

  static constexpr Duration kDetailsAfter = std::chrono::seconds(1);
  static constexpr std::size_t kMaxPhases = 4;
  static constexpr std::size_t kMaxPassed = 16;
  static constexpr std::size_t kMaxStillWorkers = 256;

  bool operator==(const NodeProgress&) const = default;
};

// A process of the job that exists after SIGKILL. Mostly it waits for a disk or a file server, in a
// system call that no signal interrupts. It may hold a resource that the next worker needs (a GPU,
// a port, a file), and its own write may still complete.
struct StuckProcess {
  std::optional<Rank> rank{};  // its rank; nullopt: a process that a worker left behind
  int pid = 0;
  ProcessState state = ProcessState::kRunnable;
  std::string waits_for{};  // for people: system call with file, or kernel function
  Duration stuck{};         // since SIGKILL, at the time of the report

  bool operator==(const StuckProcess&) const = default;
};

// "rank 3 (pid 77) is still there 12.1 s after SIGKILL, in disk wait (D), in write(/data/log)".
std::string Describe(const StuckProcess& process);

// All stuck processes of a node.
struct StuckProcesses {
  // Counts the changes of the list since the agent's start: a lower number is older. 0: no process
  // was ever stuck.
  std::uint32_t report = 0;
  std::vector<StuckProcess> processes{};  // at most kMost

  static constexpr std::size_t kMost = 64;

  // The same list `passed` later.
  StuckProcesses After(Duration passed) const;

  bool operator==(const StuckProcesses&) const = default;
};

// The first process, and the number of others; "": none.
std::string Describe(const StuckProcesses& stuck);

// How many ranks of a generation have connected to torch's store, while some are missing.
struct StoreArrivals {
  int arrived = 0;
  std::vector<Rank> missing{};  // the lowest missing ranks; empty: not known which
  static constexpr std::size_t kMostMissing = 16;

  bool operator==(const StoreArrivals&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_PROGRESS_H_
