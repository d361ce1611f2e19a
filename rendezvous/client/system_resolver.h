// Host names mean to the connections of this process what they mean to the rest of the machine.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_SYSTEM_RESOLVER_H_
#define DDPRUN_RENDEZVOUS_CLIENT_SYSTEM_RESOLVER_H_

#include <cstdlib>

namespace ddprun {

// gRPC asks name servers by itself, also for a name that /etc/hosts has, and waits for their
// answer: for ever on a compute node that reaches none. The C library's resolver goes by
// nsswitch.conf. Sets a variable of the environment: call it before the first thread and before
// gRPC is used, and after the environment for others was copied.
inline void UseSystemResolver() { ::setenv("GRPC_DNS_RESOLVER", "native", /*overwrite=*/0); }

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_SYSTEM_RESOLVER_H_
