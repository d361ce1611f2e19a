#include "tests/unit/worker/support/rank_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

extern char** environ;

namespace ddp::test {
namespace {

constexpr char kSocket[] = "DDP_TEST_RANK_SERVER";  // the server's descriptor
constexpr std::size_t kMostBytes = 128 << 10;       // of a request

int server = -1;  // our end of the socket, once there is a server
bool has_main = false;

// NUL-terminated strings: filter, output, and the environment.
struct Request {
  std::string filter;
  std::string output;
  std::vector<std::string> environment;

  std::string Encode() const {
    std::string bytes = filter + '\0' + output + '\0';
    for (const std::string& entry : environment) bytes += entry + '\0';
    return bytes;
  }

  static Request Decode(const std::string& bytes) {
    std::vector<std::string> strings;
    for (std::size_t at = 0; at < bytes.size(); at += strings.back().size() + 1) {
      strings.emplace_back(bytes.c_str() + at);
    }
    return {strings[0], strings[1], {strings.begin() + 2, strings.end()}};
  }
};

void Redirect(const std::string& path, int to) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || dup2(fd, to) != to) _exit(126);
  close(fd);
}

void BecomeRank(const Request& request) {
  Redirect(request.output + ".out", STDOUT_FILENO);
  Redirect(request.output + ".err", STDERR_FILENO);
  clearenv();
  for (const std::string& entry : request.environment) {
    const std::size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
}

// Forks twice, and the process in between ends at once: the rank becomes a child of the test, which
// is a subreaper. Returns 0 in the rank.
pid_t ForkRank(pid_t* shared) {
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t rank = fork();
    if (rank == 0) return 0;
    *shared = rank;
    _exit(0);
  }
  waitpid(parent, nullptr, 0);
  return *shared;
}

// Returns in each rank, with its filter. The server itself ends with the test.
std::string Serve(int socket) {
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  if (threads != 1) {
    std::fprintf(stderr, "the rank server has %td threads; its forks could not use libtorch\n",
                 threads);
    std::_Exit(1);
  }
  auto* const shared = static_cast<pid_t*>(
      mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<char> bytes(kMostBytes);
  for (;;) {
    const ssize_t size = recv(socket, bytes.data(), bytes.size(), 0);
    if (size <= 0) std::_Exit(0);
    const Request request = Request::Decode({bytes.data(), static_cast<std::size_t>(size)});
    *shared = -1;
    const pid_t rank = ForkRank(shared);
    if (rank == 0) {
      close(socket);
      BecomeRank(request);
      return request.filter;
    }
    if (send(socket, &rank, sizeof(rank), MSG_NOSIGNAL) < 0) std::_Exit(0);
  }
}

void StartServer() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  // Libraries read these variables when they are loaded; OpenBLAS then starts threads.
  std::vector<std::string> environment = {"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
                                          std::string(kSocket) + "=3"};
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  std::vector<char*> pointers;
  for (std::string& entry : environment) pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  std::array<char*, 2> argv = {const_cast<char*>("rank_server"), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
  pid_t pid = -1;
  const bool started =
      posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), pointers.data()) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (started) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    server = ends[0];
  } else {
    close(ends[0]);
  }
}

}  // namespace

bool RankServer::available() { return has_main; }

int RankServer::RunTests(int argc, char** argv) {
  std::string filter;
  std::vector<char*> rank_argv;
  if (const char* const socket = std::getenv(kSocket)) {
    filter = "--gtest_filter=" + Serve(std::atoi(socket));
    rank_argv = {argv[0], filter.data(), nullptr};
    argc = 2;
    argv = rank_argv.data();
  }
  has_main = true;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}

pid_t RankServer::StartRank(const std::string& filter, const std::vector<std::string>& environment,
                            const std::string& output) {
  if (server < 0) StartServer();
  const std::string bytes = Request{filter, output, environment}.Encode();
  pid_t pid = -1;
  if (bytes.size() > kMostBytes || send(server, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 ||
      recv(server, &pid, sizeof(pid), 0) != sizeof(pid)) {
    return -1;
  }
  return pid;
}

}  // namespace ddp::test
