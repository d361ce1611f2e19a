// Principal: who calls. "token:NAME", "uid:N", "cert:CN", or "" if no credentials are asked for.
// Pure.
#ifndef DDPRUN_RENDEZVOUS_AUTH_PRINCIPAL_H_
#define DDPRUN_RENDEZVOUS_AUTH_PRINCIPAL_H_

#include <string>
#include <string_view>

namespace ddprun::auth {

using Principal = std::string;

// Whether `caller` may join, read and end the jobs of `owner`. MUNGE's root may act for everybody.
inline bool MayAct(std::string_view caller, std::string_view owner) {
  return caller == owner || caller == "uid:0";
}

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_PRINCIPAL_H_
