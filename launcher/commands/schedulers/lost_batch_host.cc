#include "launcher/commands/schedulers/lost_batch_host.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

// Waits until the batch host is no longer among the job's nodes, then requeues. Every remaining
// agent runs it; the first one to requeue raises the restart count.
constexpr char kScript[] = R"SH(
set -f
pause=5
for _ in $(seq 14); do
  if shown=$(squeue --noheader --jobs="$SLURM_JOB_ID" --states=RUNNING \
    --Format=BatchHost:300,RestartCnt:20,NodeList:60000); then
    # shellcheck disable=SC2086 # three words
    set -- $shown
    [ $# -eq 3 ] && [ "$2" = "${SLURM_RESTART_COUNT:-0}" ] || exit 1
    if ! scontrol show hostnames "$3" | grep -qxF -e "$1"; then
      scontrol requeue incomplete "$SLURM_JOB_ID" && exit
    fi
  fi # else slurmctld is away for a while
  sleep "$pause"
  pause=$((pause < 60 ? pause * 2 : 60))
done
exit 1
)SH";

}  // namespace

bool RequeueWithoutBatchHost() {
  posix_spawnattr_t attributes;
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  char shell[] = "sh";
  char flag[] = "-c";
  char* const argv[] = {shell, flag, const_cast<char*>(kScript), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/bin/sh", nullptr, &attributes, argv, environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return false;
  // An agent blocks Slurm's signals. After one of them, waiting is useless.
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::sigaddset(&end, SIGINT);
  const UniqueFd signals(::signalfd(-1, &end, SFD_CLOEXEC));
  const UniqueFd script(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ready[] = {{script.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
  while (::poll(ready, 2, -1) < 0 && errno == EINTR) {
  }
  if (ready[0].revents == 0) ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace ddprun
