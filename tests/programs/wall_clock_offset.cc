// A library for LD_PRELOAD that shifts the wall clock of a process, and no other clock, by
// WALL_CLOCK_OFFSET_MS milliseconds: nodes whose clocks differ.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <cstdlib>

namespace {

long long OffsetNs() {
  static const long long offset = [] {
    const char* const text = std::getenv("WALL_CLOCK_OFFSET_MS");
    return text == nullptr ? 0 : std::atoll(text) * 1'000'000;
  }();
  return offset;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    const long long ns = now->tv_sec * 1'000'000'000LL + now->tv_nsec + OffsetNs();
    now->tv_sec = ns / 1'000'000'000;
    now->tv_nsec = ns % 1'000'000'000;
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
