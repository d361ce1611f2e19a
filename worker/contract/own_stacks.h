// How a process writes the stacks of its own threads for a reader on its node that may not trace it
// (launcher/stacks/own_stacks.h).
//
// The process handles kStackSignal and has a memfd open. A reader finds the memfd by its name in
// /proc/PID/fd. It sends the signal only where the memfd is there and /proc/PID/status shows that
// the signal is caught. The name says what is written:
//
//   kStacksFile         registers and stacks, by worker/src/agent/own_stacks.h. The signal goes to
//                       one thread with a request (rt_tgsigqueueinfo(2)). The thread writes to the
//                       slot that the request names.
//   kPythonStacksFile   text, by Python's faulthandler: the Python frames of all threads. The
//                       signal goes to the main thread.
//
// One reader at a time: the reader holds flock(2) on the memfd, and empties the file after reading.
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

// The record of one thread, at the beginning of its slot. The copied stack follows at
// kStackRecordBytes. `request` works like a seqlock: the writer sets it to 0 first and to the
// request last. If the reader finds the same request before and after, what it read is whole.
struct StackRecord {
  static constexpr std::size_t kMostRegisters = 40;

  std::uint64_t request;
  std::uint64_t register_count;
  std::uint64_t registers[kMostRegisters];  // in DWARF's order; the last one is the address of code
  std::uint64_t stack_start;                // the address of the first byte
  std::uint64_t stack_bytes;
};

inline constexpr std::size_t kStackRecordBytes = 4096;
inline constexpr std::size_t kStackCopyBytes = std::size_t{128} << 10;
inline constexpr std::size_t kStackSlotBytes = kStackRecordBytes + kStackCopyBytes;
inline constexpr std::size_t kStackSlots = 64;
static_assert(sizeof(StackRecord) <= kStackRecordBytes);

// A request is a number that the reader chooses, never 0. Its lowest bits are the slot.
inline std::size_t SlotOfRequest(std::uint64_t request) {
  return static_cast<std::size_t>(request % kStackSlots);
}

// The red zone: a leaf function may keep values below the stack pointer, without moving it.
inline constexpr std::uint64_t kRedZoneBytes = 128;

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_OWN_STACKS_H_
