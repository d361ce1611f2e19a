// A library for LD_PRELOAD that ends a worker at a chosen point. The file FAULT_PLAN has one line
// for each fault:
//
//   <generation> <rank> <point> <count> <kind> [<nth>]
//
// <point> is what the worker does when the fault happens:
//   start      becomes a worker
//   forming    connects to its peers, or listens for them
//   restore    reads a state's file, or shares it with its node; at the latest, has loaded it
//   step       has written a line to the log FAULT_LOG/rank<R>.log
//   save       gives a checkpoint or a snapshot its name
//   leave      has read LEAVE=1 (its generation is over), and has not left the generation yet
//   forward    calls relu, in a forward pass with gradients
//   backward   calls the derivative of relu
//   allreduce  sends to a peer in a backward pass; half of the bytes are sent
//   optimizer  changes a parameter, in a step of Adam
//
// <count> is the occurrence of the point that gets the fault, from 1. For the last four points it
// is the step of the generation, from 1, and <nth> is the occurrence in this step (default 1).
//
// <kind> is what happens:
//   kill, segv, exit   SIGKILL, SIGSEGV, exit code 1
//   node               writes "node" into the FIFO FAULT_FIFO, and waits; the reader ends this node
//   hold               writes "hold <pid>" into the FIFO, and waits; the reader ends this process
//   agent              writes "agent" into the FIFO, kills this worker's agent by SIGKILL, and
//                      continues
//
// If FAULT_LIVES names a file, appends two kinds of lines to it. At the start of each generation of
// each worker: "life <generation> <rank> <pid>". For each fault: "fault <generation> <rank> <pid>
// <point>".
//
// If a worker continues in place (ddp::run_in_place), its generation is the one in the agent's
// message GO=1.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

// Functions of libtorch that this library stands before. A Tensor is returned in memory, because
// its copy constructor is not trivial; nothing else must be known here.
namespace c10 {
class Scalar;
}  // namespace c10
namespace at {
class Tensor {
 public:
  Tensor(const Tensor&);
  ~Tensor();
};
namespace _ops {
struct __attribute__((visibility("default"))) relu {
  static Tensor call(const Tensor& self);
};
struct __attribute__((visibility("default"))) threshold_backward {
  static Tensor call(const Tensor& grad, const Tensor& self, const c10::Scalar& threshold);
};
struct __attribute__((visibility("default"))) addcdiv_ {
  static Tensor& call(Tensor& self, const Tensor& one, const Tensor& other, const c10::Scalar& by);
};
}  // namespace _ops
}  // namespace at

namespace {

struct Fault {
  std::string point;
  int count = 0;
  std::string kind;
  int nth = 1;
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
    if (!(fields >> one.nth)) one.nth = 1;
    if (generation == in_generation && rank == of_rank) found = one;
  }
  return found;
}

// One generation of this process. It changes between generations, while nothing else runs.
struct Life {
  std::string generation = Variable("DDPRUN_GENERATION");
  std::string rank = Variable("RANK");
  Fault fault = Planned(generation, rank);
  std::atomic<int> count{0};  // occurrences of the point; for a point of a step: in this step
  std::atomic<int> step{1};   // of the generation
  std::atomic<bool> in_backward{false};
};
std::atomic<Life*> current{nullptr};  // a Life is never deleted: other threads may still read it

template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void Append(const std::string& path, const std::string& line) {
  static const auto real_open = Real<int (*)(const char*, int, mode_t)>("open");
  static const auto real_write = Real<ssize_t (*)(int, const void*, size_t)>("write");
  const int fd = real_open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0 || real_write(fd, line.data(), line.size()) != ssize_t(line.size())) abort();
  close(fd);
}

void Note(const Life& life, const std::string& what, const std::string& more) {
  const std::string path = Variable("FAULT_LIVES");
  if (path.empty()) return;
  Append(path, what + " " + life.generation + " " + life.rank + " " + std::to_string(getpid()) +
                   more + "\n");
}

std::atomic<pid_t> agent{0};  // as the control socket says

[[noreturn]] void WaitForTheEnd() {
  for (;;) pause();
}

void Happen(const Life& life) {
  const Fault& fault = life.fault;
  Note(life, "fault", " " + fault.point);
  if (fault.kind == "segv") raise(SIGSEGV);
  if (fault.kind == "exit") _exit(1);
  if (fault.kind == "node") {
    Append(Variable("FAULT_FIFO"), "node\n");
    WaitForTheEnd();
  }
  if (fault.kind == "hold") {
    Append(Variable("FAULT_FIFO"), "hold " + std::to_string(getpid()) + "\n");
    WaitForTheEnd();
  }
  if (fault.kind == "agent") {
    Append(Variable("FAULT_FIFO"), "agent\n");
    kill(agent, SIGKILL);
    return;
  }
  raise(SIGKILL);
}

// Null: not a worker yet.
Life* TheLife() {
  Life* const known = current;
  if (known != nullptr || Variable("RANK").empty()) return known;
  static auto* const first = new Life;
  Life* none = nullptr;
  if (current.compare_exchange_strong(none, first)) Note(*first, "life", "");
  return current;
}

// True: the fault of this process happens now.
bool IsAt(const char* point) {
  Life* const life = TheLife();
  return life != nullptr && life->fault.point == point && ++life->count == life->fault.count;
}

void Reach(const char* point) {
  if (IsAt(point)) Happen(*current);
}

bool IsAtInStep(const char* point) {
  Life* const life = TheLife();
  return life != nullptr && life->fault.point == point && life->step == life->fault.count &&
         ++life->count == life->fault.nth;
}

void ReachInStep(const char* point) {
  if (IsAtInStep(point)) Happen(*current);
}

// The step has a line in the log.
void EndStep() {
  Life* const life = TheLife();
  if (life == nullptr) return;
  ++life->step;
  life->in_backward = false;
}

void SetInBackward(bool in_backward) {
  if (Life* const life = TheLife()) life->in_backward = in_backward;
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
  const bool is_new = current == nullptr;
  auto* const life = new Life;
  life->generation = ValueIn(environment, "DDPRUN_GENERATION");
  life->rank = ValueIn(environment, "RANK");
  life->fault = Planned(life->generation, life->rank);
  current = life;
  Note(*life, "life", "");
  if (is_new) Reach("start");
}

__attribute__((constructor)) void Start() { Reach("start"); }

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
  if (fd == log_fd) {
    EndStep();
    Reach("step");
  }
  return written;
}

// The library has loaded the state, or there is none.
extern "C" ssize_t send(int fd, const void* data, size_t size, int flags) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t, int)>("send");
  const std::string_view said(static_cast<const char*>(data), size);
  Life* const life = said == "PHASE=first_step" ? TheLife() : nullptr;
  if (life != nullptr && life->fault.point == "restore" && life->count < life->fault.count) {
    Happen(*life);
  }
  return real(fd, data, size, flags);
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
  if (size <= 0) return size;
  const std::string text(static_cast<const char*>(message->msg_iov[0].iov_base),
                         static_cast<std::size_t>(size));
  if (text.starts_with("LEAVE=1")) Reach("leave");
  cmsghdr* const part = text.starts_with("GO=1") ? CMSG_FIRSTHDR(message) : nullptr;
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
  const int result = real(fd, address, size);
  if (result == 0 && address->sa_family == AF_UNIX &&
      reinterpret_cast<const sockaddr_un*>(address)->sun_path ==
          Variable("DDPRUN_CONTROL_SOCKET")) {
    ucred peer = {};
    socklen_t of_peer = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &of_peer) == 0) agent = peer.pid;
  }
  return result;
}

extern "C" int listen(int fd, int backlog) noexcept {
  static const auto real = Real<int (*)(int, int)>("listen");
  Reach("forming");
  return real(fd, backlog);
}

extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto real = Real<ssize_t (*)(int, const iovec*, int)>("writev");
  int domain = AF_UNSPEC;
  socklen_t size = sizeof(domain);
  const Life* const life = current;
  if (life == nullptr || !life->in_backward ||
      getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain == AF_UNIX ||
      !IsAtInStep("allreduce")) {
    return real(fd, parts, count);
  }
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  const std::size_t half = bytes.size() / 2;
  std::size_t sent = 0;
  while (sent < half) {
    const ssize_t more = send(fd, bytes.data() + sent, half - sent, MSG_NOSIGNAL);
    if (more <= 0) break;
    sent += static_cast<std::size_t>(more);
  }
  Happen(*life);
  // A fault after which the worker goes on.
  return sent > 0 ? static_cast<ssize_t>(sent) : real(fd, parts, count);
}

namespace at::_ops {

Tensor relu::call(const Tensor& self) {
  static const auto real = Real<Tensor (*)(const Tensor&)>("_ZN2at4_ops4relu4callERKNS_6TensorE");
  static const auto has_gradients =
      reinterpret_cast<bool (*)()>(dlsym(RTLD_DEFAULT, "_ZN3c108GradMode10is_enabledEv"));
  if (has_gradients()) {  // not in an evaluation
    SetInBackward(false);
    ReachInStep("forward");
  }
  return real(self);
}

Tensor threshold_backward::call(const Tensor& grad, const Tensor& self,
                                const c10::Scalar& threshold) {
  static const auto real = Real<Tensor (*)(const Tensor&, const Tensor&, const c10::Scalar&)>(
      "_ZN2at4_ops18threshold_backward4callERKNS_6TensorES4_RKN3c106ScalarE");
  SetInBackward(true);
  ReachInStep("backward");
  return real(grad, self, threshold);
}

Tensor& addcdiv_::call(Tensor& self, const Tensor& one, const Tensor& other,
                       const c10::Scalar& by) {
  static const auto real =
      Real<Tensor& (*)(Tensor&, const Tensor&, const Tensor&, const c10::Scalar&)>(
          "_ZN2at4_ops8addcdiv_4callERNS_6TensorERKS2_S5_RKN3c106ScalarE");
  SetInBackward(false);
  ReachInStep("optimizer");
  return real(self, one, other, by);
}

}  // namespace at::_ops
