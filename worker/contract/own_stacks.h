// How a process writes the stacks of its own threads. The reader is another process on the node
// that may not trace it (launcher/stacks/own_stacks.h).
//
// The process handles kStackSignal and has a memfd open. The reader finds the memfd by its name in
// /proc/PID/fd. The reader sends the signal only if the memfd exists and /proc/PID/status shows
// that the process catches the signal. The name of the memfd says what the process writes:
//
//   kStacksFile         registers and stacks, by worker/src/agent/own_stacks.h. The signal goes to
//                       one thread with a request (rt_tgsigqueueinfo(2)). The thread writes to the
//                       slot that the request names.
//   kPythonStacksFile   text, by Python's faulthandler: the Python frames of all threads. The
//                       signal goes to the main thread.
//
// Only one reader at a time: it holds flock(2) on the memfd, and empties the file after it has
// read.
//
// POSIX only, header only, C++17: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_OWN_STACKS_H_
#define DDPRUN_WORKER_CONTRACT_OWN_STACKS_H_

#include <cstddef>
#include <cstdint>

namespace ddprun {

inline constexpr int kStackSignal = 61;  // SIGRTMAX − 3
inline constexpr char kStacksFile[] = "ddprun-stacks";
inline constexpr char kPythonStacksFile[] = "ddprun-python-stacks";  // sitecustomize.py, ddprun.py

// The record of one thread, at the beginning of the thread's slot. A copy of the thread's stack
// follows at offset kStackRecordBytes. `request` works like a seqlock: the writer first sets it to
// 0, and last to the request's number. If the reader finds the same number before and after it
// reads, the record is complete.
struct StackRecord {
  static constexpr std::size_t kMostRegisters = 40;

  std::uint64_t request;
  std::uint64_t register_count;
  std::uint64_t registers[kMostRegisters];  // in DWARF's order; the last is the program counter
  std::uint64_t stack_start;                // the address of the first byte of the copy
  std::uint64_t stack_bytes;
};

inline constexpr std::size_t kStackRecordBytes = 4096;
inline constexpr std::size_t kStackCopyBytes = std::size_t{128} << 10;
inline constexpr std::size_t kStackSlotBytes = kStackRecordBytes + kStackCopyBytes;
inline constexpr std::size_t kStackSlots = 64;
static_assert(sizeof(StackRecord) <= kStackRecordBytes);

// A request is a number that the reader chooses; it is never 0. Its lowest bits select the slot.
inline std::size_t SlotOfRequest(std::uint64_t request) {
  return static_cast<std::size_t>(request % kStackSlots);
}

// The red zone of the ABI: a leaf function may keep values below the stack pointer without moving
// it.
inline constexpr std::uint64_t kRedZoneBytes = 128;

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_OWN_STACKS_H_
