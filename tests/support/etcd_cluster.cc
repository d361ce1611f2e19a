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

namespace ddprun {
namespace {

constexpr char kEtcd[] = "/usr/bin/etcd";
constexpr char kEtcdctl[] = "/usr/bin/etcdctl";

// `count` times "127.0.0.1:PORT". Nobody listens on these ports.
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

// True if all threads of the process are stopped.
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
  if (access(kEtcd, X_OK) != 0) return absl::StrCat(kEtcd, " (etcd-server)");
  return access(kEtcdctl, X_OK) == 0 ? "" : absl::StrCat(kEtcdctl, " (etcd-client)");
}

EtcdCluster::EtcdCluster(int members, Options options) : options_(std::move(options)) {
  std::vector<std::string> addresses = FreeAddresses(2 * members);
  endpoints_.assign(addresses.begin(), addresses.begin() + members);
  peers_.assign(addresses.begin() + members, addresses.end());
  programs_.resize(members);
  for (int member = 0; member < members; ++member) Start(member);
  WaitForLeader();
}

std::string EtcdCluster::Url(const std::string& address) const {
  return absl::StrCat(options_.certificates.empty() ? "http://" : "https://", address);
}

std::string EtcdCluster::InitialCluster() const {
  std::vector<std::string> all;
  for (int member = 0; member < size(); ++member) {
    all.push_back(absl::StrCat(NameOf(member), "=", Url(peers_[member])));
  }
  return absl::StrJoin(all, ",");
}

std::string EtcdCluster::Token() const { return absl::StrCat(folder_.path(), restores_); }

std::string EtcdCluster::DataOf(int member) const {
  return folder_ / absl::StrCat(NameOf(member), "-", restores_);
}

std::vector<std::string> EtcdCluster::CommandOf(int member) const {
  const std::string client = Url(endpoints_[member]);
  const std::string peer = Url(peers_[member]);
  std::vector<std::string> command = {kEtcd,
                                      "--name",
                                      NameOf(member),
                                      "--data-dir",
                                      DataOf(member),
                                      "--listen-client-urls",
                                      client,
                                      "--advertise-client-urls",
                                      client,
                                      "--listen-peer-urls",
                                      peer,
                                      "--initial-advertise-peer-urls",
                                      peer,
                                      "--initial-cluster",
                                      InitialCluster(),
                                      "--initial-cluster-token",
                                      Token(),
                                      "--heartbeat-interval",
                                      "50",
                                      "--election-timeout",
                                      "300"};
  if (!options_.certificates.empty()) {
    for (const char* const whom : {"", "peer-"}) {
      for (const auto& [flag, value] :
           {std::pair("client-cert-auth=", std::string("true")),
            std::pair("trusted-ca-file=", options_.certificates + "/ca.crt"),
            std::pair("cert-file=", options_.certificates + "/head.crt"),
            std::pair("key-file=", options_.certificates + "/head.key")}) {
        command.push_back(absl::StrCat("--", whom, flag, value));
      }
    }
  }
  command.insert(command.end(), options_.flags.begin(), options_.flags.end());
  return command;
}

etcd::Options EtcdCluster::ClientOptions() const {
  etcd::Options options;
  options.endpoints = endpoints_;
  if (options_.certificates.empty()) return options;
  options.ca = options_.certificates + "/ca.crt";
  options.cert = options_.certificates + "/head.crt";
  options.key = options_.certificates + "/head.key";
  return options;
}

std::optional<std::string> EtcdCluster::CtlAt(const std::vector<std::string>& endpoints,
                                              std::vector<std::string> arguments) const {
  std::vector<std::string> urls;
  for (const std::string& endpoint : endpoints) urls.push_back(Url(endpoint));
  std::vector<std::string> command = {kEtcdctl, "--endpoints", absl::StrJoin(urls, ",")};
  if (const etcd::Options client = ClientOptions(); !client.ca.empty()) {
    command.insert(command.end(),
                   {"--cacert", client.ca, "--cert", client.cert, "--key", client.key});
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  Program etcdctl(command, {{"ETCDCTL_API", "3"}});
  if (etcdctl.ExitCode() != 0) return std::nullopt;
  return etcdctl.out();
}

bool EtcdCluster::Restore(const std::string& snapshot) {
  for (int member = 0; member < size(); ++member) Kill(member);
  ++restores_;
  for (int member = 0; member < size() && !snapshot.empty(); ++member) {
    Program etcdctl(
        {kEtcdctl, "snapshot", "restore", snapshot, "--data-dir", DataOf(member), "--name",
         NameOf(member), "--initial-cluster", InitialCluster(), "--initial-cluster-token", Token(),
         "--initial-advertise-peer-urls", Url(peers_[member])},
        {{"ETCDCTL_API", "3"}});
    if (etcdctl.ExitCode() != 0) return false;
  }
  for (int member = 0; member < size(); ++member) Start(member);
  return true;
}

int EtcdCluster::WaitForLeader() const {
  const auto client = etcd::Client::Create(ClientOptions());
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
