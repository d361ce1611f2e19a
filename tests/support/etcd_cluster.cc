#include "tests/support/etcd_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/etcd/etcd_client.h"

namespace ddprun {
namespace {

constexpr char kEtcd[] = "/usr/bin/etcd";

// "127.0.0.1:PORT" each; nobody listens there.
std::vector<std::string> FreeAddresses(int count) {
  std::vector<std::string> addresses;
  std::vector<int> sockets;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      abort();
    }
    addresses.push_back(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)));
    sockets.push_back(fd);
  }
  for (const int fd : sockets) close(fd);
  return addresses;
}

// All threads of the process.
bool IsStopped(pid_t pid) {
  std::error_code ended;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), ended)) {
    const std::string stat = ReadFile(thread.path() / "stat");
    const std::size_t name_end = stat.rfind(") ");
    if (name_end != std::string::npos && stat[name_end + 2] != 'T') return false;
  }
  return true;
}

}  // namespace

std::string MissingForEtcd() {
  return access(kEtcd, X_OK) == 0 ? "" : absl::StrCat(kEtcd, " (etcd-server)");
}

EtcdCluster::EtcdCluster(int members, std::vector<std::string> flags) : flags_(std::move(flags)) {
  std::vector<std::string> addresses = FreeAddresses(2 * members);
  endpoints_.assign(addresses.begin(), addresses.begin() + members);
  peers_.assign(addresses.begin() + members, addresses.end());
  programs_.resize(members);
  for (int member = 0; member < members; ++member) Start(member);
  WaitForLeader();
}

std::vector<std::string> EtcdCluster::CommandOf(int member) const {
  const auto name = [](int member) { return absl::StrCat("m", member); };
  std::vector<std::string> all;
  for (int other = 0; other < size(); ++other) {
    all.push_back(absl::StrCat(name(other), "=http://", peers_[other]));
  }
  const std::string client = absl::StrCat("http://", endpoints_[member]);
  const std::string peer = absl::StrCat("http://", peers_[member]);
  std::vector<std::string> command = {kEtcd,
                                      "--name",
                                      name(member),
                                      "--data-dir",
                                      folder_ / name(member),
                                      "--listen-client-urls",
                                      client,
                                      "--advertise-client-urls",
                                      client,
                                      "--listen-peer-urls",
                                      peer,
                                      "--initial-advertise-peer-urls",
                                      peer,
                                      "--initial-cluster",
                                      absl::StrJoin(all, ","),
                                      "--initial-cluster-token",
                                      folder_.path(),
                                      "--heartbeat-interval",
                                      "50",
                                      "--election-timeout",
                                      "300"};
  command.insert(command.end(), flags_.begin(), flags_.end());
  return command;
}

int EtcdCluster::WaitForLeader() const {
  etcd::Options options;
  options.endpoints = endpoints_;
  const auto client = etcd::Client::Create(options);
  const auto deadline = std::chrono::steady_clock::now() + kHang;
  while (std::chrono::steady_clock::now() < deadline) {
    std::map<std::uint64_t, int> members;
    std::optional<std::uint64_t> leader;
    for (int member = 0; member < size(); ++member) {
      if (programs_[member] == nullptr) continue;
      const auto status = (*client)->Ask(endpoints_[member], std::chrono::milliseconds(500));
      if (!status.ok()) continue;
      members[status->member] = member;
      if (status->leader != 0) leader = status->leader;
    }
    if (leader && members.count(*leader) > 0) return members[*leader];
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  abort();  // etcd does not work here
}

void EtcdCluster::Freeze(int member) {
  programs_[member]->Signal(SIGSTOP);
  // A thread that the kernel has not stopped yet may still answer.
  while (!IsStopped(pid(member))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void EtcdCluster::Thaw(int member) { programs_[member]->Signal(SIGCONT); }

void EtcdCluster::Kill(int member) { programs_[member].reset(); }

void EtcdCluster::Start(int member) {
  programs_[member] = std::make_unique<Program>(CommandOf(member));
}

}  // namespace ddprun
