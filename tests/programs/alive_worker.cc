// A worker that writes time stamps while it lives: it appends "PID NANOSECONDS" (CLOCK_MONOTONIC)
// to FOLDER/HOST.gGENERATION.rRANK every 20 ms, until there is a file FOLDER.go.
//
//     alive_worker FOLDER
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

int main(int argc, char** argv) {
  char host[64] = "";
  if (argc != 2 || gethostname(host, sizeof host) != 0) return 64;
  const std::string folder = argv[1];
  const std::string path =
      folder + "/" + host + ".g" + getenv("DDPRUN_GENERATION") + ".r" + getenv("RANK");
  const std::string go = folder + ".go";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return 73;
  while (access(go.c_str(), F_OK) != 0) {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    char line[64];
    const int size = snprintf(line, sizeof line, "%d %lld\n", static_cast<int>(getpid()),
                              now.tv_sec * 1000000000LL + now.tv_nsec);
    if (write(file, line, size) != size) return 74;
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
  return 0;
}
