// Simulated clients of torch's TCPStore, all in this process. They initialize like the ranks of one
// job. Prints how long each phase took, in ms, and ends when its stdin ends.
//
//     store_clients PORT CLIENTS old|new
//
// old: like libtorch 1.13, which has two connections for each client. new: like libtorch 2.6.
//
//     connect   every client is connected and was answered once
//     set       every client has set a key of its own and read its neighbour's key
//     barrier   every client has counted itself, and waited for the key that the last client sets
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/launcher/torch_store/requests.h"
#include "worker/contract/unique_fd.h"

namespace {

using ddprun::UniqueFd;
using namespace ddprun::torch_store;

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

class Clients {
 public:
  Clients(int port, int count, bool old) : port_(port), old_(old), clients_(count) {
    if (!epoll_.valid()) Fail("epoll_create1");
  }

  std::size_t size() const { return clients_.size(); }

  // Limits the number of clients that connect at one time: they must fit into the listener's queue.
  // A client that waits for room there would lose a second.
  void Connect() {
    constexpr std::size_t kAtATime = 512;
    for (std::size_t from = 0; from < size(); from += kAtATime) {
      const std::size_t to = std::min(from + kAtATime, size());
      for (std::size_t i = from; i < to; ++i) Open(i);
      const std::string hello = old_ ? "" : Validation() + Ping(7);
      const std::string add = (old_ ? kOld : kNew).Add("init/", 1);
      Exchange(from, to, (old_ ? 8 : 12), [&](std::size_t) { return hello + add; });
    }
  }

  // Every client sends a request, and waits for an answer of `bytes` bytes.
  void ExchangeAll(std::size_t bytes, const std::function<std::string(std::size_t)>& request) {
    Exchange(0, size(), bytes, request);
  }

 private:
  struct Client {
    UniqueFd socket;
    UniqueFd watcher;  // libtorch 1.13 has one, and seldom uses it
    std::size_t missing = 0;
  };

  UniqueFd ConnectOne() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      Fail("connect");
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return socket;
  }

  void Open(std::size_t index) {
    Client& client = clients_[index];
    client.socket = ConnectOne();
    if (old_) client.watcher = ConnectOne();
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = index;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.socket.get(), &event) != 0) {
      Fail("epoll_ctl");
    }
  }

  void Exchange(std::size_t from, std::size_t to, std::size_t bytes,
                const std::function<std::string(std::size_t)>& request) {
    for (std::size_t i = from; i < to; ++i) {
      const std::string text = request(i);
      clients_[i].missing += bytes;
      if (::send(clients_[i].socket.get(), text.data(), text.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(text.size())) {
        Fail("send");
      }
    }
    std::size_t waiting = bytes == 0 ? 0 : to - from;
    while (waiting > 0) waiting -= ReceiveSome();
  }

  // How many clients have all of their answers now.
  std::size_t ReceiveSome() {
    std::vector<epoll_event> events(256);
    const int ready =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    std::size_t done = 0;
    for (int i = 0; i < ready; ++i) {
      Client& client = clients_[events[i].data.u64];
      char buffer[4096];
      const ssize_t size = ::recv(client.socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (size <= 0 || static_cast<std::size_t>(size) > client.missing) Fail("recv");
      client.missing -= static_cast<std::size_t>(size);
      done += client.missing == 0 ? 1 : 0;
    }
    return done;
  }

  const int port_;
  const bool old_;
  const UniqueFd epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  std::vector<Client> clients_;
};

double MillisecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

std::string KeyOf(std::size_t client) { return "address/" + std::to_string(client); }

void Run(int port, int count, bool old) {
  const Requests& requests = old ? kOld : kNew;
  const std::string value(100, 'x');
  Clients clients(port, count, old);
  const std::size_t last = clients.size() - 1;
  const double connect = MillisecondsOf([&] { clients.Connect(); });
  const double set = MillisecondsOf([&] {
    clients.ExchangeAll(0, [&](std::size_t i) { return requests.Set(KeyOf(i), value); });
    clients.ExchangeAll(
        1, [&](std::size_t i) { return requests.Wait({KeyOf((i + 1) % clients.size())}); });
    clients.ExchangeAll(8 + value.size(), [&](std::size_t i) {
      return requests.Get(KeyOf((i + 1) % clients.size()));
    });
  });
  const double barrier = MillisecondsOf([&] {
    clients.ExchangeAll(8, [&](std::size_t) { return requests.Add("barrier", 1); });
    clients.ExchangeAll(1, [&](std::size_t i) {
      return (i == last ? requests.Set("over", "") : "") + requests.Wait({"over"});
    });
  });
  std::printf("%.1f %.1f %.1f\n", connect, set, barrier);
  std::fflush(stdout);
  ::getchar();  // until the caller has read the server's memory
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: store_clients PORT CLIENTS old|new\n");
    return 64;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  Run(std::atoi(argv[1]), std::atoi(argv[2]), std::string(argv[3]) == "old");
}
