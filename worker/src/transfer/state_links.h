// The network part of a restore: TCP connections along the tree of StateRoute. A node's leader
// connects to its parent.
#ifndef DDPRUN_WORKER_SRC_TRANSFER_STATE_LINKS_H_
#define DDPRUN_WORKER_SRC_TRANSFER_STATE_LINKS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/contract/unique_fd.h"
#include "worker/src/base/peer_crypto.h"

namespace ddp::internal {

// The connections of one rank. Each child gets all bytes that this rank sends. A child's calls of
// Receive() must have the same sizes and order as its parent's calls of Send(). Calls block; only
// one thread may make them. If a neighbour in the tree ends, its connection ends, and this rank
// fails too.
//
// With a secret, child and parent prove to each other that they know it, and all bytes are
// encrypted. Without a secret, the child shows the token that the parent has published.
class StateLinks {
 public:
  // Listens for the ranks `children`. `secret` is the secret of all ranks; empty: none. Throws
  // std::system_error.
  StateLinks(int rank, std::vector<int> children, std::string secret = "");
  StateLinks(const StateLinks&) = delete;
  StateLinks& operator=(const StateLinks&) = delete;

  // What the children need to connect: "<port> <token>". Empty: there are no children.
  const std::string& contact() const { return contact_; }

  struct Parent {
    int rank = 0;
    std::string host;     // numeric address
    std::string contact;  // contact() of the parent
  };

  struct Patience {
    std::chrono::milliseconds connect;  // for the parent, and then again for all children
    std::chrono::milliseconds silence;  // afterwards, for each next action of a neighbour
    // Called several times per second while this rank waits for children. If it throws, the wait
    // ends.
    std::function<void()> check = [] {};
  };

  // Connects to the parent, which already listens, and waits for the children. Refuses a connection
  // without the token. Throws std::runtime_error, which names an address or a rank.
  void Connect(const std::optional<Parent>& parent, const Patience& patience);

  // Receives exactly `size` bytes from the parent. Throws std::runtime_error, which names the
  // parent's rank.
  void Receive(std::byte* to, std::size_t size);

  // Sends to all children. Returns once the kernel has the bytes. Throws std::runtime_error, which
  // names the child's rank.
  void Send(const std::byte* data, std::size_t size);

 private:
  struct Link {
    ddprun::UniqueFd socket;
    int rank = -1;
    std::optional<Seal> seal;  // set if there is a secret
  };
  // The first message of a child.
  std::string Hello(const std::string& token, int rank, const std::string& nonce) const;
  // Checks the first message of a connection. Returns the link if `hello` comes from one of the
  // ranks `missing`.
  std::optional<Link> Welcome(ddprun::UniqueFd socket, const std::string& hello,
                              const std::vector<int>& missing) const;
  void Greet(const Parent& parent, const std::string& token);
  void SendAll(const Link& link, const std::byte* data, std::size_t size) const;
  void ReceiveAll(std::byte* to, std::size_t size);
  void AcceptChildren(const Patience& patience);
  ddprun::UniqueFd Accept() const;
  // Throws the error of errno for the connection to rank `rank`.
  [[noreturn]] void Broken(int rank, const char* who) const;

  const int rank_;
  const std::vector<int> children_;
  const std::string secret_;
  std::string contact_;
  std::string token_;
  ddprun::UniqueFd listener_;
  std::chrono::milliseconds silence_{0};
  Link up_;
  std::vector<Link> down_;
  std::vector<std::byte> sealed_;  // one piece and its tag
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_TRANSFER_STATE_LINKS_H_
