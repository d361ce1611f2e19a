#include "launcher/os/store_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/os/check.h"
#include "launcher/torch_store/store_clients.h"

namespace ddprun {
namespace {

using torch_store::ClientId;
using torch_store::Replies;
using torch_store::StoreClients;

// Ids that epoll reports: these two, or a client's.
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kStop = 1;
constexpr ClientId kFirstClient = 2;

constexpr std::size_t kBufferBytes = 64UL << 10U;
constexpr std::size_t kMaxUnsentBytes = 256UL << 20U;  // for all clients together
// The delay until the next accept() if no descriptor is free.
constexpr int kAcceptPauseMs = 100;

// An IPv4-mapped address; an IPv6 address unchanged.
in6_addr AsIpv6(const sockaddr_in6& address) {
  if (address.sin6_family != AF_INET) return address.sin6_addr;
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xFF;
  std::memcpy(&mapped.s6_addr[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  return mapped;
}

bool IsLoopback(const in6_addr& address) {
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

// True: both ends of the connection are on this host.
bool IsOfThisHost(int connection) {
  sockaddr_in6 near{};
  sockaddr_in6 far{};
  socklen_t near_size = sizeof(near);
  socklen_t far_size = sizeof(far);
  if (::getsockname(connection, reinterpret_cast<sockaddr*>(&near), &near_size) != 0 ||
      ::getpeername(connection, reinterpret_cast<sockaddr*>(&far), &far_size) != 0) {
    return false;
  }
  const in6_addr a = AsIpv6(near);
  const in6_addr b = AsIpv6(far);
  return std::memcmp(&a, &b, sizeof(a)) == 0 || IsLoopback(b);
}

}  // namespace

// All members belong to the thread, except the constructor, Stop() and clients_served().
class StoreServer::Thread {
 public:
  Thread(UniqueFd listener, Options options)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        epoll_(CheckSyscall(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        stop_(CheckSyscall(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
        clients_({}, options_.world_size),
        buffer_(kBufferBytes) {
    Watch(EPOLL_CTL_ADD, listener_.get(), EPOLLIN, kListener);
    Watch(EPOLL_CTL_ADD, stop_.get(), EPOLLIN, kStop);
    thread_ = std::thread([this] { Run(); });
    ::pthread_setname_np(thread_.native_handle(), "ddprun-store");
  }

  void Stop() {
    const std::uint64_t one = 1;
    CheckSyscall(static_cast<int>(::write(stop_.get(), &one, sizeof(one))), "write to an eventfd");
    thread_.join();
  }

  int clients_served() const { return clients_served_.load(std::memory_order_relaxed); }

 private:
  struct Connection {
    UniqueFd socket;
    std::string unsent;   // not empty: the client is not read
    bool served = false;  // it has sent a valid request
  };

  void Watch(int how, int fd, std::uint32_t events, std::uint64_t id) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    CheckSyscall(::epoll_ctl(epoll_.get(), how, fd, &event), "epoll_ctl");
  }

  void Run() {
    std::array<epoll_event, 256> events{};
    while (true) {
      const int ready = ::epoll_wait(epoll_.get(), events.data(), events.size(), LongestPauseMs());
      if (accept_paused_) PauseAccepting(false);
      for (int i = 0; i < ready; ++i) {
        const std::uint64_t id = events[i].data.u64;
        if (id == kStop) return;
        id == kListener ? Accept() : Serve(id, events[i].events);
      }
      if (clients_.TakeNewArrivals()) options_.on_arrivals(clients_.arrivals());
      AnswerPolls();
    }
  }

  int LongestPauseMs() const {
    if (clients_.any_polls()) return static_cast<int>(StoreClients::kPollLimit.count());
    return accept_paused_ ? kAcceptPauseMs : -1;
  }

  // Answers clients that wait for a barrier: after kPollLimit, or a little later under load.
  void AnswerPolls() {
    if (!clients_.any_polls()) {
      polls_since_.reset();
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!polls_since_) polls_since_ = now;
    if (now - *polls_since_ < StoreClients::kPollLimit) return;
    polls_since_.reset();
    replies_.clear();
    clients_.AnswerPolls(&replies_);
    for (const torch_store::Reply& reply : replies_) Send(reply);
  }

  void PauseAccepting(bool pause) {
    accept_paused_ = pause;
    Watch(EPOLL_CTL_MOD, listener_.get(), pause ? 0U : std::uint32_t{EPOLLIN}, kListener);
  }

  void Accept() {
    while (true) {
      UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          ReportRefusal(absl::ErrnoToStatus(errno, "cannot accept a client").message());
          PauseAccepting(true);
        }
        return;
      }
      if (options_.this_host_only && !IsOfThisHost(socket.get())) continue;
      if (connections_.size() >= kMaxClients) {
        ReportRefusal(absl::StrCat("there are ", kMaxClients, " clients already"));
        continue;
      }
      const int on = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      const ClientId id = next_client_++;
      Watch(EPOLL_CTL_ADD, socket.get(), EPOLLIN, id);
      connections_[id].socket = std::move(socket);
    }
  }

  void Serve(ClientId id, std::uint32_t events) {
    const auto connection = connections_.find(id);
    if (connection == connections_.end()) return;  // disconnected in this turn
    if ((events & EPOLLOUT) != 0) SendUnsent(id, &connection->second);
    if ((events & ~std::uint32_t{EPOLLOUT}) != 0) Receive(id, &connection->second);
  }

  void Receive(ClientId id, Connection* connection) {
    const ssize_t size =
        ::recv(connection->socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return Disconnect(id);
    replies_.clear();
    const absl::Status status =
        clients_.Receive(id, {buffer_.data(), static_cast<std::size_t>(size)}, &replies_);
    if (status.ok() && !std::exchange(connection->served, true)) ++clients_served_;
    for (const torch_store::Reply& reply : replies_) Send(reply);
    if (status.ok()) return;
    ReportRefusal(status.message());
    Disconnect(id);
  }

  void Send(const torch_store::Reply& reply) {
    const auto at = connections_.find(reply.client);
    if (at == connections_.end()) return;
    Connection& connection = at->second;
    absl::string_view bytes = reply.bytes;
    if (connection.unsent.empty()) {
      bytes.remove_prefix(SendNow(connection, bytes));
      if (bytes.empty()) return;
      Watch(EPOLL_CTL_MOD, connection.socket.get(), EPOLLOUT, reply.client);
    }
    unsent_bytes_ += bytes.size();
    absl::StrAppend(&connection.unsent, bytes);
    if (unsent_bytes_ <= kMaxUnsentBytes) return;
    ReportRefusal("it does not read its replies");
    Disconnect(reply.client);
  }

  // Returns how much was sent. epoll reports a broken connection.
  static std::size_t SendNow(const Connection& connection, absl::string_view bytes) {
    const ssize_t sent =
        ::send(connection.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    return errno == EAGAIN || errno == EINTR ? 0 : bytes.size();
  }

  void SendUnsent(ClientId id, Connection* connection) {
    const std::size_t sent = SendNow(*connection, connection->unsent);
    unsent_bytes_ -= sent;
    connection->unsent.erase(0, sent);
    if (!connection->unsent.empty()) return;
    connection->unsent = std::string();  // frees the memory
    Watch(EPOLL_CTL_MOD, connection->socket.get(), EPOLLIN, id);
  }

  void Disconnect(ClientId id) {
    const auto connection = connections_.find(id);
    if (connection == connections_.end()) return;
    clients_.Close(id);
    unsent_bytes_ -= connection->second.unsent.size();
    connections_.erase(connection);
  }

  void ReportRefusal(absl::string_view why) {
    if (++refusals_ <= kMaxRefusals) options_.on_refused(std::string(why));
  }

  const Options options_;
  const UniqueFd listener_;
  const UniqueFd epoll_;
  const UniqueFd stop_;
  std::atomic<int> clients_served_ = 0;

  StoreClients clients_;
  std::unordered_map<ClientId, Connection> connections_;
  ClientId next_client_ = kFirstClient;
  std::size_t unsent_bytes_ = 0;  // of all connections
  int refusals_ = 0;
  bool accept_paused_ = false;
  std::optional<std::chrono::steady_clock::time_point>
      polls_since_;  // set: clients wait for a barrier since then
  std::vector<char> buffer_;
  Replies replies_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Start(UniqueFd socket, Options options) {
  const int flags = ::fcntl(socket.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return absl::ErrnoToStatus(errno, "cannot listen on MASTER_PORT");
  }
  return std::unique_ptr<StoreServer>(
      new StoreServer(std::make_unique<Thread>(std::move(socket), std::move(options))));
}

StoreServer::StoreServer(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}

StoreServer::~StoreServer() { thread_->Stop(); }

int StoreServer::clients_served() const { return thread_->clients_served(); }

}  // namespace ddprun
