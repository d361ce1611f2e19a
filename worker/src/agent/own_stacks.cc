#include "worker/src/agent/own_stacks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "worker/contract/own_stacks.h"

namespace ddp::internal {

#if defined(__x86_64__) || defined(__aarch64__)

namespace {

using ddprun::StackRecord;

// Enough for the handler's frame and the registers that the kernel saves, even with AMX or SVE.
constexpr std::size_t kAlternateStackBytes = std::size_t{64} << 10;

// Set before the handler is installed; does not change afterwards.
struct Memfd {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;
};
Memfd g_file;

// While a thread writes to its slot, it holds the slot's flag. So a thread that handles an old
// request late cannot write to the slot at the same time as the thread of the current request.
std::array<std::atomic_flag, ddprun::kStackSlots> g_slots;

std::uint64_t TakeRegisters(const ucontext_t& context, StackRecord* record) {
#if defined(__x86_64__)
  constexpr int kInDwarfOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                   REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                   REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (const int index : kInDwarfOrder) {
    record->registers[record->register_count++] =
        static_cast<std::uint64_t>(context.uc_mcontext.gregs[index]);
  }
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
#else
  for (const std::uint64_t value : context.uc_mcontext.regs) {
    record->registers[record->register_count++] = value;
  }
  record->registers[record->register_count++] = context.uc_mcontext.sp;
  record->registers[record->register_count++] = context.uc_mcontext.pc;
  return context.uc_mcontext.sp;
#endif
}

// The kernel copies, and stops at unreadable memory. A copy by this process would crash there.
long Write(const void* from, std::size_t size, std::size_t at) {
  return ::syscall(SYS_pwrite64, g_file.fd, from, size, static_cast<off_t>(at));
}

// False if the program has closed the descriptor, because its number may now be another file. Also
// false if RLIMIT_FSIZE is too low, because the write would raise SIGXFSZ.
bool MayWrite() {
  struct stat info;
  rlimit limit;
  return ::fstat(g_file.fd, &info) == 0 && info.st_dev == g_file.device &&
         info.st_ino == g_file.inode && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         limit.rlim_cur >= ddprun::kStackSlots * ddprun::kStackSlotBytes;
}

void WriteStack(std::uint64_t request, const ucontext_t& context) {
  const std::size_t slot = ddprun::SlotOfRequest(request);
  if (request == 0 || !MayWrite() || g_slots[slot].test_and_set(std::memory_order_acquire)) return;
  const std::size_t at = slot * ddprun::kStackSlotBytes;
  StackRecord record = {};
  Write(&record.request, sizeof(record.request), at);
  record.stack_start = TakeRegisters(context, &record) - ddprun::kRedZoneBytes;
  const long copied = Write(reinterpret_cast<const void*>(record.stack_start),
                            ddprun::kStackCopyBytes, at + ddprun::kStackRecordBytes);
  record.stack_bytes = copied > 0 ? static_cast<std::uint64_t>(copied) : 0;
  Write(&record, sizeof(record), at);
  Write(&request, sizeof(request), at);
  g_slots[slot].clear(std::memory_order_release);
}

void OnStackSignal(int, siginfo_t* info, void* context) {
  const int saved = errno;
  if (info->si_code == SI_QUEUE) {
    WriteStack(reinterpret_cast<std::uintptr_t>(info->si_value.sival_ptr),
               *static_cast<const ucontext_t*>(context));
  }
  errno = saved;
}

bool MakeFile() {
  struct stat info;
  g_file.fd = ::memfd_create(ddprun::kStacksFile, MFD_CLOEXEC);
  if (g_file.fd < 0 || ::fstat(g_file.fd, &info) != 0) return false;
  g_file.device = info.st_dev;
  g_file.inode = info.st_ino;
  return true;
}

void TakeAlternateStack() {
  stack_t stack;
  if (::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  stack = {};
  stack.ss_size = kAlternateStackBytes;
  stack.ss_sp = ::mmap(nullptr, stack.ss_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack.ss_sp != MAP_FAILED) ::sigaltstack(&stack, nullptr);
}

void Install() {
  struct sigaction action;
  if (::sigaction(ddprun::kStackSignal, nullptr, &action) != 0 ||
      (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL || !MakeFile()) {
    return;
  }
  TakeAlternateStack();
  action = {};
  action.sa_sigaction = OnStackSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigfillset(&action.sa_mask);
  ::sigaction(ddprun::kStackSignal, &action, nullptr);
}

}  // namespace

void WriteOwnStacksOnSignal() {
  static std::atomic_flag done = ATOMIC_FLAG_INIT;
  if (!done.test_and_set()) Install();
}

#else

void WriteOwnStacksOnSignal() {}  // the code does not know the registers of this architecture

#endif

}  // namespace ddp::internal
