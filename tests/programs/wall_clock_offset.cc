// A library for LD_PRELOAD that shifts the wall clock of a process, and no other clock. So nodes
// can have clocks that differ. The shift is WALL_CLOCK_OFFSET_MS in milliseconds, or a number of
// nanoseconds (8 bytes in this machine's byte order) in the file WALL_CLOCK_OFFSET_FILE. A new
// number in the file steps the clock of all processes with this library.
//
// The kernel does not know the shifted clock. So this library subtracts the shift from the
// deadlines of futex(2) that are times of the wall clock.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>

namespace {

constexpr long long kSecond = 1'000'000'000;

// The address of the offset. The offset is read at each call, and never written here.
const volatile long long* Offset() {
  static const volatile long long* const offset = [] {
    static long long fixed = 0;
    if (const char* const text = std::getenv("WALL_CLOCK_OFFSET_MS")) {
      fixed = std::atoll(text) * 1'000'000;
    }
    const char* const path = std::getenv("WALL_CLOCK_OFFSET_FILE");
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return &fixed;
    // Not by mmap(): the UCX that newer libtorch packages load overwrites its first instruction
    // with a jump to itself while it hooks the function, and reads the clock meanwhile.
    const long page = syscall(SYS_mmap, nullptr, sizeof fixed, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return page == -1 ? &fixed : reinterpret_cast<long long*>(page);
  }();
  return offset;
}

void Shift(timespec* time, long long by) {
  const long long ns = time->tv_sec * kSecond + time->tv_nsec + by;
  time->tv_sec = ns < 0 ? 0 : ns / kSecond;
  time->tv_nsec = ns < 0 ? 0 : ns % kSecond;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    Shift(now, *Offset());
  }
  return result;
}

extern "C" int gettimeofday(timeval* __restrict now, void* __restrict) noexcept {
  timespec time{};
  if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

extern "C" time_t time(time_t* seconds) noexcept {
  timespec now{};
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (seconds != nullptr) *seconds = now.tv_sec;
  return now.tv_sec;
}

// Abseil waits by this system call, and gRPC waits by Abseil.
extern "C" long syscall(long number, ...) noexcept {
  using Function = long (*)(long, ...);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "syscall"));
  long args[6];
  va_list list;
  va_start(list, number);
  for (long& one : args) one = va_arg(list, long);
  va_end(list);
  timespec deadline{};
  if (number == SYS_futex && (args[1] & FUTEX_CLOCK_REALTIME) != 0 && args[3] != 0) {
    deadline = *reinterpret_cast<const timespec*>(args[3]);
    Shift(&deadline, -*Offset());
    args[3] = reinterpret_cast<long>(&deadline);
  }
  return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
