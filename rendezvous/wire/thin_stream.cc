#include "rendezvous/wire/thin_stream.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>

namespace ddprun {

void SendAgainSteadily(int fd) {
  const int on = 1;
  constexpr char kReno[] = "reno";
  // Linux treats a stream as thin only once it has a slow-start threshold, which BBR never sets. A
  // session sends too little to need congestion control.
  if (setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on) == 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno, sizeof kReno - 1);
  }
}

void SendAgainSteadily() {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir("/proc/self/fd"), &closedir);
  if (open == nullptr) return;
  while (const dirent* const entry = readdir(open.get())) {
    SendAgainSteadily(std::atoi(entry->d_name));  // "." and "..": 0
  }
}

}  // namespace ddprun
