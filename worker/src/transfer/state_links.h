// The network's part in a restore: TCP connections along the tree of StateRoute, from each leader
// to its parent.
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

// One rank's end of them. What a parent sends, all of its children get; they call Receive() with
// the sizes with which it calls Send(), in the same order. Calls block; of one thread. Where a
// neighbour has ended, its connection does, and then this rank's.
//
// With a secret, child and parent show each other that they know it, and all that is sent is
// encrypted. Without, who knows the token that the ranks publish among themselves is believed.
class StateLinks {
 public:
  // Listens for `children`, ranks. `secret`: of all ranks; empty: none. Throws std::system_error.
  StateLinks(int rank, std::vector<int> children, std::string secret = "");
  StateLinks(const StateLinks&) = delete;
  StateLinks& operator=(const StateLinks&) = delete;

  // What the children must know, before they connect: "<port> <token>"; empty where there are none.
  const std::string& contact() const { return contact_; }

  struct Parent {
    int rank = 0;
    std::string host;     // a numeric address
    std::string contact;  // its contact()
  };

  struct Patience {
    std::chrono::milliseconds connect;  // until parent and children are connected
    std::chrono::milliseconds silence;  // then, for what a neighbour that is still there does next
    // While it waits for children, called several times a second; ends the wait where it throws.
    std::function<void()> check = [] {};
  };

  // Connects to the parent, which listens already, and waits for the children. Who does not know
  // the token is turned away. Throws std::runtime_error, with address or rank.
  void Connect(const std::optional<Parent>& parent, const Patience& patience);

  // All of `size` bytes from the parent. Throws std::runtime_error, with its rank.
  void Receive(std::byte* to, std::size_t size);

  // To all children; returns when the kernel has them. Throws std::runtime_error, with the rank.
  void Send(const std::byte* data, std::size_t size);

 private:
  struct Link {
    ddprun::UniqueFd socket;
    int rank = -1;
    std::optional<Seal> seal;  // with a secret
  };
  // What a child says first.
  std::string Hello(const std::string& token, int rank, const std::string& nonce) const;
  // The rank among `missing` whose child this is, and its end of the connection.
  std::optional<Link> Welcome(ddprun::UniqueFd socket, const std::string& hello,
                              const std::vector<int>& missing) const;
  void Greet(const Parent& parent, const std::string& token);
  void SendAll(const Link& link, const std::byte* data, std::size_t size) const;
  void ReceiveAll(std::byte* to, std::size_t size);
  void AcceptChildren(const Patience& patience);
  ddprun::UniqueFd Accept() const;
  // What errno says of the connection to `rank`.
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
