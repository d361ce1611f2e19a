// A worker that leaves processes behind, like real programs. Used by orphans_test.
//
//     orphan_maker KIND END
//
// KIND: the processes that it starts (see kKinds). Then the worker prints "ready" and does END:
// "stay", "exit" or "crash". All started processes have DDPRUN_TEST_MARK in the command line, and
// most also in the environment. They hold a lock on $ORPHAN_LOCK, unless they close all files. So a
// test sees them even if their pids change all the time. If ddprun does not end them, they end by
// themselves after a minute, so that they do not stay on the machine.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <string>

namespace {

// A stray lives for at most a minute, and only as long as its lock file exists.
time_t g_end;
bool MayLive() {
  const char* const lock = std::getenv("ORPHAN_LOCK");
  return time(nullptr) < g_end && (lock == nullptr || access(lock, F_OK) == 0);
}

// Becomes the process that must not survive, and runs `life`. Reports through `ready` that it runs.
[[noreturn]] void BecomeStray(const char* life, int ready, bool with_environment) {
  const std::string name = std::string("stray-of-") + std::getenv("DDPRUN_TEST_MARK");
  const std::string fd = std::to_string(ready);
  if (const char* path = std::getenv("ORPHAN_LOCK")) flock(open(path, O_RDONLY), LOCK_SH);
  const char* argv[] = {name.c_str(), "live", life, fd.c_str(), nullptr};
  char* nothing[] = {nullptr};
  execve("/proc/self/exe", const_cast<char**>(argv), with_environment ? environ : nothing);
  _exit(9);
}

// Forks twice and leaves the session, as daemon programs do.
void Daemonize(const std::function<void()>& body) {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  body();
}

void Child(int ready) {
  if (fork() == 0) BecomeStray("sleep", ready, true);
}

void Grandchild(int ready) {
  if (fork() != 0) return;
  if (fork() == 0) BecomeStray("sleep", ready, true);
  sleep(60);
  _exit(0);
}

void Daemon(int ready) {
  Daemonize([ready] { BecomeStray("sleep", ready, true); });
}

void Nameless(int ready) {
  Daemonize([ready] { BecomeStray("hide", ready, false); });
}

void Hydra(int ready) {
  Daemonize([ready] { BecomeStray("hydra", ready, true); });
}

void Relay(int ready) {
  Daemonize([ready] { BecomeStray("relay", ready, true); });
}

const std::map<std::string, void (*)(int)> kKinds = {
    {"child", Child},                                // in the worker's process group
    {"grandchild", Grandchild}, {"daemon", Daemon},  // of a session of its own
    {"nameless", Nameless},  // the same, without environment and open files, deaf to signals
    {"hydra", Hydra},        // two processes; each starts the other again when it dies
    {"relay", Relay},        // forks and ends repeatedly: another pid each time
};

void LiveAsHydra() {
  while (MayLive()) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child > 0) {
      waitpid(child, nullptr, 0);
      continue;
    }
    pollfd ended{static_cast<int>(syscall(SYS_pidfd_open, parent, 0)), POLLIN, 0};
    if (getppid() == parent) poll(&ended, 1, 60'000);
    close(ended.fd);
  }
}

void LiveAsRelay() {
  while (MayLive()) {
    if (fork() > 0) _exit(0);
    usleep(500);  // without this the machine has no time for anything else
  }
}

[[noreturn]] void Live(const std::string& life, int ready) {
  g_end = time(nullptr) + 60;
  if (life == "hide") {
    for (int signo = 1; signo <= 64; ++signo) signal(signo, SIG_IGN);
  }
  if (write(ready, "r", 1) != 1) _exit(8);
  close(ready);
  if (life == "hide") closefrom(0);
  if (life == "hydra") LiveAsHydra();
  if (life == "relay") LiveAsRelay();
  while (MayLive()) poll(nullptr, 0, 1000);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && argv[1] == std::string("live")) Live(argv[2], std::atoi(argv[3]));
  const auto kind = argc == 3 ? kKinds.find(argv[1]) : kKinds.end();
  if (kind == kKinds.end()) return 2;
  int ends[2];
  if (pipe(ends) != 0) return 3;
  kind->second(ends[1]);
  char byte;
  if (read(ends[0], &byte, 1) != 1) return 4;
  std::puts("ready");
  std::fflush(stdout);
  const std::string end = argv[2];
  if (end == "exit") return 0;
  if (end == "crash") std::abort();
  for (;;) pause();
}
