// A worker for restart_bench.py that writes down the time at which main began. It appends a line
// "rank pid nanoseconds" (CLOCK_MONOTONIC) to the file in argv[1]. Then it waits to be killed.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (argc != 2) return 64;
  // Reports a step if an agent listens: after a generation without a step, ddprun makes a pause.
  if (const char* const path = std::getenv("DDPRUN_CONTROL_SOCKET")) {
    const int control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connect(control, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 1;
    if (send(control, "STEP=1", 6, MSG_NOSIGNAL) != 6) return 1;
  }
  char line[128];
  const int size = std::snprintf(line, sizeof line, "%s %d %lld\n", std::getenv("RANK"), getpid(),
                                 static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec);
  const int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (write(file, line, static_cast<std::size_t>(size)) != size) return 1;
  for (;;) pause();
}
