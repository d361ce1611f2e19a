// A library for LD_PRELOAD that ends a worker at a chosen point. The file FAULT_PLAN has one line
// for each fault:
//
//   <generation> <rank> <point> <count> <kind>
//
//   point   forming    connects to its peers, or listens for them
//           restore    reads a state's file, or shares it with its node
//           step       has written a line to the log of FAULT_LOG/rank<R>.log
//           save       gives a checkpoint, or a snapshot, its name
//   count   which occurrence of the point gets the fault, from 1
//   kind    kill (SIGKILL), segv (SIGSEGV), exit (code 1), or node: writes a line into the FIFO
//           FAULT_FIFO and waits until the reader ends this node
//
// If a worker continues in place (ddp::run_in_place), its generation is the one in the agent's
// message GO=1.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace {

struct Fault {
  std::string point;
  int count = 0;
  std::string kind;
};

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The fault for this rank in this generation; without one in the plan, a fault that never comes.
Fault Planned(const std::string& in_generation, const std::string& of_rank) {
  Fault found;
  std::ifstream plan(Variable("FAULT_PLAN"));
  for (std::string line; std::getline(plan, line);) {
    std::istringstream fields(line);
    std::string generation, rank;
    Fault one;
    fields >> generation >> rank >> one.point >> one.count >> one.kind;
    if (generation == in_generation && rank == of_rank) found = one;
  }
  return found;
}

// The fault of this process. It changes between generations, while nothing else runs.
struct Life {
  Fault fault = Planned(Variable("DDPRUN_GENERATION"), Variable("RANK"));
  std::atomic<int> count{0};
};
Life& TheLife() {
  static auto* const life = new Life;
  return *life;
}

// `environment`: entries NAME=value, each with a NUL at its end.
std::string ValueIn(const std::string& environment, const std::string& name) {
  const std::size_t at = (std::string(1, '\0') + environment).find('\0' + name + "=");
  if (at == std::string::npos) return "";
  return std::string(environment.c_str() + at + name.size() + 1);
}

// The agent has sent GO=1. `file` has the environment of the next generation.
void BeginGeneration(int file) {
  std::string environment(1 << 16, '\0');
  const ssize_t size = pread(file, environment.data(), environment.size(), 0);
  if (size <= 0) return;
  environment.resize(static_cast<std::size_t>(size));
  TheLife().fault =
      Planned(ValueIn(environment, "DDPRUN_GENERATION"), ValueIn(environment, "RANK"));
  TheLife().count = 0;
}

void Reach(const char* point) {
  if (Variable("RANK").empty()) return;  // not a worker yet
  const Fault& fault = TheLife().fault;
  if (fault.point != point || ++TheLife().count != fault.count) return;
  if (fault.kind == "segv") raise(SIGSEGV);
  if (fault.kind == "exit") _exit(1);
  if (fault.kind == "node") {
    const int fifo = open(Variable("FAULT_FIFO").c_str(), O_WRONLY | O_CLOEXEC);
    if (write(fifo, "node\n", 5) != 5) abort();
    for (;;) pause();
  }
  raise(SIGKILL);
}

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool EndsWith(const std::string& text, const char* end) {
  const std::size_t size = std::strlen(end);
  return text.size() >= size && text.compare(text.size() - size, size, end) == 0;
}

std::atomic<int> log_fd{-1};

int Opened(const char* path, int flags, int fd) {
  const std::string name = path;
  if (name == Variable("FAULT_LOG") + "/rank" + Variable("RANK") + ".log") log_fd = fd;
  const bool reads_state = EndsWith(name, ".safetensors") && (flags & O_ACCMODE) == O_RDONLY;
  if (reads_state || name.find("/.ddp-restore-") != std::string::npos) Reach("restore");
  return fd;
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0);
  va_end(more);
  static const auto real = Real<int (*)(const char*, int, mode_t)>("open");
  return Opened(path, flags, real(path, flags, mode));
}

extern "C" ssize_t write(int fd, const void* data, size_t size) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t)>("write");
  const ssize_t written = real(fd, data, size);
  if (fd == log_fd) Reach("step");
  return written;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real = Real<int (*)(const char*, const char*)>("rename");
  if (EndsWith(from, ".tmp") && EndsWith(to, ".safetensors")) Reach("save");
  return real(from, to);
}

extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned int flags) noexcept {
  static const auto real =
      Real<int (*)(int, const char*, int, const char*, unsigned int)>("renameat2");
  if (EndsWith(from, ".tmp") && EndsWith(to, ".safetensors")) Reach("save");
  return real(from_folder, from, to_folder, to, flags);
}

extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto real = Real<ssize_t (*)(int, msghdr*, int)>("recvmsg");
  const ssize_t size = real(fd, message, flags);
  constexpr char kGo[] = "GO=1";
  const bool goes = size >= 4 && std::memcmp(message->msg_iov[0].iov_base, kGo, 4) == 0;
  cmsghdr* const part = goes ? CMSG_FIRSTHDR(message) : nullptr;
  if (part != nullptr && part->cmsg_type == SCM_RIGHTS) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(part), sizeof(file));
    BeginGeneration(file);
  }
  return size;
}

extern "C" int connect(int fd, const sockaddr* address, socklen_t size) {
  static const auto real = Real<int (*)(int, const sockaddr*, socklen_t)>("connect");
  if (address->sa_family == AF_INET || address->sa_family == AF_INET6) Reach("forming");
  return real(fd, address, size);
}

extern "C" int listen(int fd, int backlog) noexcept {
  static const auto real = Real<int (*)(int, int)>("listen");
  Reach("forming");
  return real(fd, backlog);
}
