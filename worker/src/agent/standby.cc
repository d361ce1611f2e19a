#include "worker/src/agent/standby.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/src/agent/launch_variables.h"

namespace ddp::internal {
namespace {

namespace control = ddprun::control;

[[noreturn]] void FailToStart(const std::string& what) {
  throw std::runtime_error("this warm standby cannot become a worker: " + what);
}

std::string ReadAll(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) FailToStart(std::string("fstat: ") + std::strerror(errno));
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t size =
        pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) FailToStart("its environment cannot be read");
    done += static_cast<std::size_t>(size);
  }
  return bytes;
}

void Redirect(int from, int to) {
  while (dup2(from, to) < 0) {
    if (errno != EINTR && errno != EBUSY) FailToStart(std::string("dup2: ") + std::strerror(errno));
  }
}

// Returns the environment that comes with GO=1. Also redirects stdout and stderr to the worker's
// files.
std::string WaitForOrders(ControlClient* client) {
  const std::vector<ddprun::UniqueFd> received = client->WaitForGo();
  if (received.size() != control::kGoDescriptors) FailToStart("GO came without its descriptors");
  std::string environment = ReadAll(received[0].get());
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
  Redirect(received[1].get(), STDOUT_FILENO);
  Redirect(received[2].get(), STDERR_FILENO);
  return environment;
}

}  // namespace

bool IsStandby() {
  const char* const value = std::getenv(ddprun::env::kStandby);
  return value != nullptr && std::string_view(value) == "1";
}

void ReplaceEnvironment(const std::string& entries) {
  // Never freed, because pointers from getenv() must stay valid in every thread. setenv() of glibc
  // does not change this array; it first makes a copy.
  auto* const bytes = new std::string(entries);
  auto* const pointers = new std::vector<char*>;
  for (std::size_t begin = 0; begin < bytes->size();) {
    const std::size_t end = bytes->find('\0', begin);
    if (end == std::string::npos) break;  // not an entry
    pointers->push_back(bytes->data() + begin);
    begin = end + 1;
  }
  pointers->push_back(nullptr);
  environ = pointers->data();
}

void WaitAsStandby(ControlClient* client) { ReplaceEnvironment(WaitForOrders(client)); }

void WaitAsSurvivor(ControlClient* client) { SetLaunchVariables(WaitForOrders(client)); }

}  // namespace ddp::internal
