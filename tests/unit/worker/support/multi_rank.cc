#include "tests/unit/worker/support/multi_rank.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/rank_server.h"

extern char** environ;

namespace ddp::test {
namespace {

// Newer versions of Gloo log every connection, "[./gloo/...:243] INFO Rank 0 is ...", and this
// cannot be switched off. These lines are removed; Gloo's warnings and errors stay.
std::string WithoutGlooInfo(const std::string& err) {
  std::istringstream lines(err);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const bool gloo = !line.empty() && line.front() == '[' && line.find("gloo/") < line.find(']');
    if (gloo && line.find("] INFO ") == line.find(']')) continue;
    kept += line;
    if (!lines.eof()) kept += '\n';
  }
  return kept;
}

using std::chrono::steady_clock;

constexpr char kInRank[] = "DDP_TEST_IN_RANK";

std::string Self() {
  char path[4096] = {};
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "";
}

std::string CurrentTest() {
  const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Environment RankEnvironment(const Job& job, int rank, int port) {
  const std::string size = std::to_string(job.world_size);
  Environment result = {{kInRank, "1"},
                        {"RANK", std::to_string(rank)},
                        {"LOCAL_RANK", std::to_string(rank)},
                        {"WORLD_SIZE", size},
                        {"LOCAL_WORLD_SIZE", size},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", std::to_string(port)},
                        {"OMP_NUM_THREADS", "1"}};
  for (const auto& [name, value] : job.environment) result[name] = value;
  return result;
}

// The environment of this process, with `changes`.
std::vector<std::string> Changed(const Environment& changes) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (changes.count(text.substr(0, text.find('='))) == 0) environment.push_back(text);
  }
  for (const auto& [name, value] : changes) environment.push_back(name + "=" + value);
  return environment;
}

pid_t Execute(std::vector<std::string> command, std::vector<std::string> environment,
              const std::string& output) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, 1, (output + ".out").c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&files, 2, (output + ".err").c_str(), flags, 0600);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, command[0].c_str(), &files, nullptr,
                                Pointers(&command).data(), Pointers(&environment).data());
  posix_spawn_file_actions_destroy(&files);
  EXPECT_EQ(error, 0) << "cannot start " << command[0];
  return error == 0 ? pid : -1;
}

pid_t StartRank(const Job& job, int rank, int port, const std::string& output) {
  std::vector<std::string> environment = Changed(RankEnvironment(job, rank, port));
  if (job.command) return Execute(job.command(rank), std::move(environment), output);
  if (!RankServer::available()) {
    return Execute({Self(), "--gtest_filter=" + CurrentTest()}, std::move(environment), output);
  }
  const pid_t pid = RankServer::StartRank(CurrentTest(), environment, output);
  EXPECT_GT(pid, 0) << "cannot start a rank of " << CurrentTest();
  return pid;
}

// Waits until `deadline`, then kills the process.
RankResult WaitFor(pid_t pid, steady_clock::time_point deadline, const std::string& output) {
  RankResult result;
  if (pid < 0) return result;
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd ended = {pidfd, POLLIN, 0};
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
  if (poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) != 1) {
    kill(pid, SIGKILL);
  }
  close(pidfd);
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = ReadFile(output + ".out");
  result.err = WithoutGlooInfo(ReadFile(output + ".err"));
  return result;
}

}  // namespace

HeldPort::HeldPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    abort();
  }
  port_ = ntohs(address.sin_port);
}

HeldPort::~HeldPort() { close(fd_); }

void HeldPort::Listen() {
  if (listen(fd_, 1) != 0) abort();
}

std::vector<RankResult> RunRanks(const Job& job) {
  const ddprun::TempDir folder;
  const HeldPort port;
  const auto deadline = steady_clock::now() + job.limit;
  const auto output = [&](int rank) { return folder / std::to_string(rank); };
  std::vector<pid_t> pids;
  for (int rank = 0; rank < job.world_size; ++rank) {
    pids.push_back(StartRank(job, rank, port.port(), output(rank)));
  }
  std::vector<RankResult> results;
  for (int rank = 0; rank < job.world_size; ++rank) {
    results.push_back(WaitFor(pids[static_cast<std::size_t>(rank)], deadline, output(rank)));
  }
  return results;
}

bool InRank() { return std::getenv(kInRank) != nullptr; }

bool StartedRanks(int world_size, const Environment& environment) {
  if (InRank()) return false;
  const std::vector<RankResult> results = RunRanks({world_size, {}, environment});
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    const RankResult& result = results[rank];
    EXPECT_EQ(result.exit_code, 0) << "rank " << rank << ", signal " << result.signal << "\n"
                                   << result.out << result.err;
  }
  return true;
}

long RefusedConnections() {
  std::ifstream file("/proc/self/net/snmp");
  std::string names;
  std::string values;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Tcp:")) continue;
    if (names.empty()) {
      names = line;
    } else {
      values = line;
    }
  }
  std::istringstream name_words(names);
  std::istringstream value_words(values);
  std::string name;
  std::string value;
  while (name_words >> name && value_words >> value) {
    if (name == "AttemptFails") return std::stol(value);
  }
  return -1;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

int CountInErr(const std::vector<RankResult>& ranks, const std::string& text) {
  int count = 0;
  for (const RankResult& rank : ranks) {
    for (std::size_t at = rank.err.find(text); at != std::string::npos;
         at = rank.err.find(text, at + 1)) {
      ++count;
    }
  }
  return count;
}

}  // namespace ddp::test
