#include "worker/src/transfer/state_links.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "worker/src/base/in_words.h"
#include "worker/src/base/tcp.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// "<token> <rank>\n"; with a secret "<token> <rank> <nonce> <proof>\n".
constexpr std::size_t kLongestHello = 192;
constexpr std::size_t kMostStrangers = 64;  // connections that have not sent a whole hello yet
constexpr milliseconds kBetweenChecks(200);

std::string WholeSeconds(milliseconds time) { return std::to_string(time.count() / 1000) + " s"; }

// Makes the socket blocking. Each call then waits for at most `patience`.
void MakeBlocking(int socket, milliseconds patience) {
  KeepAlive(socket);
  timeval time = {};
  time.tv_sec = patience.count() / 1000;
  time.tv_usec = patience.count() % 1000 * 1000;
  if (fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) != 0) {
    throw std::runtime_error(std::string("cannot set up a connection: ") + std::strerror(errno));
  }
}

constexpr char kParent[] = ", which sends the state";
constexpr char kChild[] = ", to which the state is sent";

// A connection that is not yet accepted as a child, and the bytes that it has sent so far.
struct Stranger {
  ddprun::UniqueFd socket;
  std::string said;
  bool is_over = false;  // the hello is complete, or the connection has ended

  void Hear() {
    char bytes[kLongestHello];
    const ssize_t size = recv(socket.get(), bytes, sizeof(bytes) - said.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size > 0) said.append(bytes, static_cast<std::size_t>(size));
    is_over = size <= 0 || said.ends_with('\n') || said.size() >= kLongestHello;
  }
};

// The context of the key from parent to child. It contains a random number of each end.
std::string SealContext(int child, const std::string& of_child, const std::string& of_parent) {
  return "state to rank " + std::to_string(child) + " " + of_child + " " + of_parent;
}

}  // namespace

StateLinks::StateLinks(int rank, std::vector<int> children, std::string secret)
    : rank_(rank), children_(std::move(children)), secret_(std::move(secret)) {
  if (children_.empty()) return;
  int port = 0;
  listener_ = ListenEverywhere(&port);
  token_ = MakeToken();
  contact_ = std::to_string(port) + " " + token_;
}

void StateLinks::Connect(const std::optional<Parent>& parent, const Patience& patience) {
  silence_ = patience.silence;
  if (parent.has_value()) {
    const std::size_t space = parent->contact.find(' ');
    if (space == std::string::npos) {
      throw std::runtime_error("rank " + std::to_string(parent->rank) +
                               " could not listen for the ranks that it is to send the state to");
    }
    up_ = {ConnectTo(parent->host, parent->contact.substr(0, space), patience.connect),
           parent->rank,
           {}};
    MakeBlocking(up_.socket.get(), silence_);
    Greet(*parent, parent->contact.substr(space + 1));
  }
  AcceptChildren(patience);
  for (const Link& link : down_) MakeBlocking(link.socket.get(), silence_);
  listener_ = ddprun::UniqueFd();
}

std::string StateLinks::Hello(const std::string& token, int rank, const std::string& nonce) const {
  std::string hello = token + " " + std::to_string(rank);
  if (secret_.empty()) return hello + "\n";
  hello += " " + nonce;
  return hello + " " + Proof(secret_, "child " + hello) + "\n";
}

// Sends the hello, and receives the parent's random number. The first sealed piece proves that the
// parent knows the secret, because nobody else can seal a piece.
void StateLinks::Greet(const Parent& parent, const std::string& token) {
  const std::string nonce = secret_.empty() ? "" : MakeToken();
  const std::string hello = Hello(token, rank_, nonce);
  if (send(up_.socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(hello.size())) {
    Broken(parent.rank, kParent);
  }
  if (secret_.empty()) return;
  std::string answer(MakeToken().size(), '\0');
  ReceiveAll(reinterpret_cast<std::byte*>(answer.data()), answer.size());
  up_.seal.emplace(secret_, SealContext(rank_, nonce, answer), Seal::Side::kOpens);
}

std::optional<StateLinks::Link> StateLinks::Welcome(ddprun::UniqueFd socket,
                                                    const std::string& hello,
                                                    const std::vector<int>& missing) const {
  for (const int rank : missing) {
    std::string nonce;
    if (!secret_.empty()) {  // the nonce is the third word
      const std::string before = token_ + " " + std::to_string(rank) + " ";
      if (!hello.starts_with(before)) continue;
      nonce = hello.substr(before.size(), hello.find(' ', before.size()) - before.size());
    }
    if (!IsEqualProof(hello, Hello(token_, rank, nonce))) continue;
    Link link{std::move(socket), rank, {}};
    if (secret_.empty()) return link;
    const std::string answer = MakeToken();
    link.seal.emplace(secret_, SealContext(rank, nonce, answer), Seal::Side::kSeals);
    const ssize_t sent = send(link.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(answer.size())) return std::nullopt;  // the child is gone
    return link;
  }
  return std::nullopt;
}

void StateLinks::AcceptChildren(const Patience& patience) {
  const auto deadline = steady_clock::now() + patience.connect;
  std::vector<int> missing = children_;
  std::vector<Stranger> strangers;
  while (!missing.empty()) {
    std::vector<pollfd> ready = {{listener_.get(), POLLIN, 0}};
    for (const Stranger& stranger : strangers) ready.push_back({stranger.socket.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) {
      throw std::runtime_error(RankList(missing) + " did not connect within " +
                               WholeSeconds(patience.connect) + " to get the state");
    }
    const int wait = static_cast<int>(std::min(left, kBetweenChecks).count());
    if (poll(ready.data(), ready.size(), wait) <= 0) {
      patience.check();
      continue;
    }
    for (std::size_t i = 0; i < strangers.size(); ++i) {
      if (ready[i + 1].revents != 0) strangers[i].Hear();
    }
    for (Stranger& stranger : strangers) {
      if (!stranger.is_over) continue;
      if (auto link = Welcome(std::move(stranger.socket), stranger.said, missing)) {
        std::erase(missing, link->rank);
        down_.push_back(*std::move(link));
      }
    }
    std::erase_if(strangers, [](const Stranger& stranger) { return stranger.is_over; });
    if (ready[0].revents == 0) continue;
    ddprun::UniqueFd socket = Accept();
    if (!socket.valid()) continue;
    // Drop the oldest. A child sends its hello at once, so a child is never the oldest of many.
    if (strangers.size() == kMostStrangers) strangers.erase(strangers.begin());
    strangers.push_back({std::move(socket), "", false});
  }
}

// Not valid: the other end closed the connection before this rank accepted it.
ddprun::UniqueFd StateLinks::Accept() const {
  ddprun::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool passes = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || errno == EPROTO;
  if (!socket.valid() && !passes) {
    throw std::runtime_error(std::string("cannot accept the connections of ") +
                             RankList(children_) + ": " + std::strerror(errno));
  }
  return socket;
}

void StateLinks::Broken(int rank, const char* who) const {
  const std::string name = "rank " + std::to_string(rank) + who;
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    throw std::runtime_error(name + ", has done nothing for " + WholeSeconds(silence_));
  }
  throw std::runtime_error("lost " + name + ": " + std::strerror(errno));
}

void StateLinks::ReceiveAll(std::byte* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = recv(up_.socket.get(), to, size, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = ECONNRESET;
    if (got <= 0) Broken(up_.rank, kParent);
    to += got;
    size -= static_cast<std::size_t>(got);
  }
}

void StateLinks::Receive(std::byte* to, std::size_t size) {
  if (!up_.seal) return ReceiveAll(to, size);
  sealed_.resize(Seal::kMaxPieceBytes + Seal::kTagBytes);
  while (size > 0) {
    const std::size_t piece = std::min(size, Seal::kMaxPieceBytes);
    ReceiveAll(sealed_.data(), piece + Seal::kTagBytes);
    if (!up_.seal->Open(sealed_.data(), piece, to)) {
      throw std::runtime_error("what came from rank " + std::to_string(up_.rank) + kParent +
                               ", was changed on its way, or comes from somebody else");
    }
    to += piece;
    size -= piece;
  }
}

void StateLinks::SendAll(const Link& link, const std::byte* data, std::size_t size) const {
  for (std::size_t sent = 0; sent < size;) {
    const ssize_t took = send(link.socket.get(), data + sent, size - sent, MSG_NOSIGNAL);
    if (took < 0 && errno == EINTR) continue;
    if (took <= 0) Broken(link.rank, kChild);
    sent += static_cast<std::size_t>(took);
  }
}

void StateLinks::Send(const std::byte* data, std::size_t size) {
  for (Link& link : down_) {
    if (!link.seal) {
      SendAll(link, data, size);
      continue;
    }
    sealed_.resize(Seal::kMaxPieceBytes + Seal::kTagBytes);
    for (std::size_t sent = 0; sent < size;) {
      const std::size_t piece = std::min(size - sent, Seal::kMaxPieceBytes);
      link.seal->Close(data + sent, piece, sealed_.data());
      SendAll(link, sealed_.data(), piece + Seal::kTagBytes);
      sent += piece;
    }
  }
}

}  // namespace ddp::internal
