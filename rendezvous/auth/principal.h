// Principal: the identity of a caller: "token:NAME", "uid:N", "cert:CN", or "" if the rendezvous
// asks for no credentials. Pure.
#ifndef DDPRUN_RENDEZVOUS_AUTH_PRINCIPAL_H_
#define DDPRUN_RENDEZVOUS_AUTH_PRINCIPAL_H_

#include <string>
#include <string_view>

namespace ddprun::auth {

using Principal = std::string;

// True if `caller` may join, read and end the jobs of `owner`. With MUNGE, root may act for
// everybody.
inline bool MayAct(std::string_view caller, std::string_view owner) {
  return caller == owner || caller == "uid:0";
}

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_PRINCIPAL_H_
