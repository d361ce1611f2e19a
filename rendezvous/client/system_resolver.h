// Makes this process's connections resolve host names as the rest of the machine does.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_SYSTEM_RESOLVER_H_
#define DDPRUN_RENDEZVOUS_CLIENT_SYSTEM_RESOLVER_H_

#include <cstdlib>

namespace ddprun {

// gRPC has its own resolver. It asks name servers even for names in /etc/hosts, so it waits for
// ever on a compute node that reaches no name server. The C library's resolver obeys nsswitch.conf.
// This function sets an environment variable, unless it is set. Call it before the first thread
// starts, before the first use of gRPC, and after the environment for other processes was copied.
inline void UseSystemResolver() { ::setenv("GRPC_DNS_RESOLVER", "native", /*overwrite=*/0); }

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_SYSTEM_RESOLVER_H_
