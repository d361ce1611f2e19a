#include "worker/src/storage/process_identity.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace ddp::internal {
namespace {

struct Stat {
  std::string started;  // empty: cannot be read
  bool dead = false;    // it has ended, but its parent has not reaped it
};

Stat StatOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The program name may contain spaces and parentheses.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  // proc(5): field 3 is the state, 20 the number of threads, 22 the start.
  constexpr std::size_t kState = 3 - 3;
  constexpr std::size_t kThreads = 20 - 3;
  constexpr std::size_t kStart = 22 - 3;
  if (fields.size() <= kStart) return {};
  const bool ended = fields[kState] == "Z" || fields[kState] == "X";
  const bool alone = fields[kThreads] == "1" || fields[kThreads] == "0";
  return {fields[kStart], ended && alone};
}

}  // namespace

std::string HostName() {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, sizeof(host) - 1);
  return host;
}

std::string PidNamespace() {
  char link[64] = {};  // "pid:[4026531836]"
  const ssize_t size = readlink("/proc/self/ns/pid", link, sizeof(link));
  std::string number;
  for (ssize_t i = 0; i < size; ++i) {
    if (link[i] >= '0' && link[i] <= '9') number += link[i];
  }
  return number;
}

std::string Machine() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string pids = PidNamespace();
  return boot.empty() || pids.empty() ? "" : boot + "/" + pids;
}

std::string StartTimeOf(pid_t pid) { return StatOf(pid).started; }

bool IsGone(pid_t pid, const std::string& started) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  const Stat stat = StatOf(pid);
  return !stat.started.empty() && (stat.dead || stat.started != started);
}

}  // namespace ddp::internal
