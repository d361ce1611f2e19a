// Keeps a rendezvous from running out of descriptors.
//
// A gRPC server whose accept() fails with EMFILE closes its listener for good, and says nothing. So
// agents are refused while there is still room: first their sessions, with a reason, and where that
// does not help their connections.
//
// The kernel gives the lowest number that is free. So a new descriptor's number tells, without
// counting, that at least so many others are open.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_DESCRIPTOR_GUARD_H_
#define DDPRUN_RENDEZVOUS_SERVICE_DESCRIPTOR_GUARD_H_

#include "absl/status/status.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class DescriptorGuard {
 public:
  // `limit`: RLIMIT_NOFILE; 0: that of this process now.
  explicit DescriptorGuard(int limit = 0);
  DescriptorGuard(const DescriptorGuard&) = delete;
  DescriptorGuard& operator=(const DescriptorGuard&) = delete;

  // Above it sessions are refused, and above the other one connections: the difference is for those
  // who come to hear why. What is left to the limit is for files: the journal, logs, certificates.
  int session_limit() const { return session_limit_; }
  int connection_limit() const { return connection_limit_; }

  // ResourceExhausted, for the agent's user, when there is no room for one more agent.
  absl::Status CheckSession() const;
  // Whether the connection that got the number `fd` may stay.
  bool HasRoomFor(int fd) const { return fd < connection_limit_; }

  // At least so many are open now.
  int InUse() const;

 private:
  int limit_;
  int session_limit_;
  int connection_limit_;
  UniqueFd probe_;  // duplicated to learn what is free
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_DESCRIPTOR_GUARD_H_
