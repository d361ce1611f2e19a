// DescriptorGuard: keeps a rendezvous from running out of file descriptors.
//
// Without a free descriptor the rendezvous could open no file and accept no connection. So agents
// are refused before that: first their calls (sessions, Follow), with a reason, and later their
// connections.
//
// The kernel assigns the lowest free number. So the number of a new descriptor is a lower bound of
// the number of open ones.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_DESCRIPTOR_GUARD_H_
#define DDPRUN_RENDEZVOUS_SERVICE_DESCRIPTOR_GUARD_H_

#include "absl/status/status.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class DescriptorGuard {
 public:
  // `limit`: RLIMIT_NOFILE; 0: the present one of this process.
  explicit DescriptorGuard(int limit = 0);
  DescriptorGuard(const DescriptorGuard&) = delete;
  DescriptorGuard& operator=(const DescriptorGuard&) = delete;

  // Sessions are refused above session_limit(), and connections from connection_limit() on. Between
  // the two limits, agents can still connect, and are refused with a reason. The descriptors from
  // connection_limit() to `limit` are for files: journal, logs, certificates.
  int session_limit() const { return session_limit_; }
  int connection_limit() const { return connection_limit_; }

  // ResourceExhausted, with a text for the agent's user: there is no room for one more agent.
  absl::Status CheckSession() const;
  // True: the connection with the number `fd` may stay.
  bool HasRoomFor(int fd) const { return fd < connection_limit_; }

  // A lower bound of the descriptors that are open now.
  int InUse() const;

 private:
  int limit_;
  int session_limit_;
  int connection_limit_;
  UniqueFd probe_;  // duplicated to find the lowest free number
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_DESCRIPTOR_GUARD_H_
