// The network part of a restore: TCP connections along the tree of StateRoute, from leader to
// parent.
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

// One rank's connections. All children get the bytes that the parent sends; their calls of
// Receive() have the sizes and the order of its calls of Send(). Calls block; one thread. If a
// neighbour ends, its connection ends and this rank fails too.
//
// With a secret, child and parent prove to each other that they know it, and all bytes are
// encrypted. Without, the token that the ranks publish among themselves is enough.
class StateLinks {
 public:
  // Listens for the ranks `children`. `secret`: of all ranks; empty: none. Throws
  // std::system_error.
  StateLinks(int rank, std::vector<int> children, std::string secret = "");
  StateLinks(const StateLinks&) = delete;
  StateLinks& operator=(const StateLinks&) = delete;

  // The children need it to connect: "<port> <token>"; empty: no children.
  const std::string& contact() const { return contact_; }

  struct Parent {
    int rank = 0;
    std::string host;     // numeric address
    std::string contact;  // contact() of the parent
  };

  struct Patience {
    std::chrono::milliseconds connect;  // for connecting parent and children
    std::chrono::milliseconds silence;  // then for each next action of a neighbour
    // Called several times a second during the wait for children. Ends the wait if it throws.
    std::function<void()> check = [] {};
  };

  // Connects to the parent, which listens already, and waits for the children. Refuses a connection
  // without the token. Throws std::runtime_error with address or rank.
  void Connect(const std::optional<Parent>& parent, const Patience& patience);

  // Receives exactly `size` bytes from the parent. Throws std::runtime_error with its rank.
  void Receive(std::byte* to, std::size_t size);

  // Sends to all children; returns once the kernel has them. Throws std::runtime_error with the
  // rank.
  void Send(const std::byte* data, std::size_t size);

 private:
  struct Link {
    ddprun::UniqueFd socket;
    int rank = -1;
    std::optional<Seal> seal;  // with a secret
  };
  // The first message of a child.
  std::string Hello(const std::string& token, int rank, const std::string& nonce) const;
  // Checks `hello`. Returns the link if it comes from one of the ranks `missing`.
  std::optional<Link> Welcome(ddprun::UniqueFd socket, const std::string& hello,
                              const std::vector<int>& missing) const;
  void Greet(const Parent& parent, const std::string& token);
  void SendAll(const Link& link, const std::byte* data, std::size_t size) const;
  void ReceiveAll(std::byte* to, std::size_t size);
  void AcceptChildren(const Patience& patience);
  ddprun::UniqueFd Accept() const;
  // Throws the error of errno for the connection to `rank`.
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
