// A worker for tests of faults that trains nothing. Its ranks depend on each other like the ranks
// of a real job: all ranks meet in one barrier after another, over TCP at
// MASTER_ADDR:MASTER_PORT. When a peer is gone, a rank reports that its collective failed, and
// exits with 1.
//
//     fault_worker ACTION RANK     after a few barriers, the worker with this rank does ACTION:
//         exit0 exit1 kill segv abrt stop none
//         unsaved: reports that two checkpoints failed, prints "unsaved" and continues
//         unsaved-exit0: the same, and exits with 0
//         state: reports that a state cannot be read, and exits with 1
//
// Once the group is up each rank prints "up".
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kBarriersBeforeTheFault = 3;

int IntOf(const char* name) { return std::atoi(std::getenv(name)); }

void Tell(const std::string& message) {
  const char* const path = std::getenv("DDPRUN_CONTROL_SOCKET");
  static const int control = [path] {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) abort();
    return fd;
  }();
  send(control, message.data(), message.size(), MSG_NOSIGNAL);
}

[[noreturn]] void CollectiveFailed() {
  std::fprintf(stderr, "barrier: connection to a peer is broken: %s\n", std::strerror(errno));
  Tell("ERROR=collective a peer is gone");
  std::_Exit(1);
}

void Fail(const char* what) {
  std::perror(what);
  std::_Exit(99);
}

void SendByte(int fd) {
  if (send(fd, "x", 1, MSG_NOSIGNAL) != 1) CollectiveFailed();
}

void ReceiveByte(int fd) {
  char byte;
  if (recv(fd, &byte, 1, 0) != 1) CollectiveFailed();
}

// Rank 0 is connected to every other rank. Each other rank is connected to rank 0 alone.
std::vector<int> Connect(int rank, int world_size) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(IntOf("MASTER_PORT")));
  std::vector<int> peers;
  if (rank == 0) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Fail("bind");
    if (listen(listener, 128) != 0) Fail("listen");
    for (int i = 1; i < world_size; ++i) peers.push_back(accept(listener, nullptr, nullptr));
    return peers;
  }
  inet_pton(AF_INET, std::getenv("MASTER_ADDR"), &address.sin_addr);
  for (;;) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return {fd};
    close(fd);
    usleep(1000);  // rank 0 does not listen yet
  }
}

void Barrier(int rank, const std::vector<int>& peers) {
  if (rank == 0) {
    for (const int peer : peers) ReceiveByte(peer);
    for (const int peer : peers) SendByte(peer);
  } else {
    SendByte(peers[0]);
    ReceiveByte(peers[0]);
  }
}

void Act(const std::string& action) {
  if (action == "unsaved" || action == "unsaved-exit0") {
    Tell("CHECKPOINT_FAILED=2 1 disk full");
    Tell("CHECKPOINT_FAILED=3 2 read-only\x1b[31m");
    std::printf("unsaved\n");
    std::fflush(stdout);
  }
  if (action == "unsaved-exit0") std::_Exit(0);
  if (action == "exit0") std::_Exit(0);
  if (action == "state") {
    Tell("ERROR=state /c/step-7.safetensors: Permission denied");
    std::_Exit(1);
  }
  if (action == "exit1") {
    std::fprintf(stderr, "loss is NaN\n");
    std::_Exit(1);
  }
  if (action == "kill") raise(SIGKILL);
  if (action == "segv") {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer would handle it
    raise(SIGSEGV);
  }
  if (action == "abrt") raise(SIGABRT);
  if (action == "stop") {
    std::printf("stopping\n");
    std::fflush(stdout);
    raise(SIGSTOP);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const int rank = IntOf("RANK");
  const std::vector<int> peers = Connect(rank, IntOf("WORLD_SIZE"));
  Barrier(rank, peers);
  std::printf("up\n");
  std::fflush(stdout);
  for (int step = 1;; ++step) {
    Barrier(rank, peers);
    Tell("STEP=" + std::to_string(step));
    if (step == kBarriersBeforeTheFault && rank == std::atoi(argv[2])) Act(argv[1]);
    usleep(10'000);  // a step takes a while
  }
}
