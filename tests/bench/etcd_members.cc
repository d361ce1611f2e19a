#include "tests/bench/etcd_members.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr int kMembers = 3;

// Different ports of loopback that no process uses now.
std::vector<int> FreePorts(int count) {
  std::vector<int> sockets;
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(sockets.back(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(sockets.back(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::perror("a free port");
      std::exit(1);
    }
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int socket : sockets) close(socket);
  return ports;
}

std::string Name(int member) { return absl::StrCat("m", member); }

}  // namespace

EtcdMembers::EtcdMembers() {
  const std::vector<int> ports = FreePorts(2 * kMembers);
  std::string cluster;
  for (int i = 0; i < kMembers; ++i) {
    absl::StrAppend(&cluster, i > 0 ? "," : "", Name(i), "=http://127.0.0.1:", ports[i]);
    absl::StrAppend(&endpoints_, i > 0 ? "," : "", "127.0.0.1:", ports[kMembers + i]);
  }
  for (int i = 0; i < kMembers; ++i) {
    const std::string peer = absl::StrCat("http://127.0.0.1:", ports[i]);
    const std::string client = absl::StrCat("http://127.0.0.1:", ports[kMembers + i]);
    const std::string data = folder_ / Name(i);
    const std::vector<std::string> argv = {
        "/usr/bin/setpriv", "--pdeathsig", "KILL", "--", "/usr/bin/etcd",
        // As in packaging/ha.
        "--heartbeat-interval", "50", "--election-timeout", "300",  //
        "--name", Name(i), "--data-dir", data,                      //
        "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls",
        peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster};
    members_.push_back(std::make_unique<Program>(argv));
  }
  for (const auto& member : members_) {
    if (member->WaitForErr("ready to serve client requests")) continue;
    std::fprintf(stderr, "etcd does not start: %s\n", member->err().c_str());
    std::exit(1);
  }
}

}  // namespace ddprun
