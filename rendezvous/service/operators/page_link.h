// What an operator needs to open the page of a rendezvous. Plain values.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_PAGE_LINK_H_
#define DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_PAGE_LINK_H_

#include <string>

namespace ddprun {

struct PageLink {
  std::string host;  // where it listens; empty: at every address of its host
  int port = 0;
  std::string code;                // good once, for a minute
  std::string certificate_sha256;  // 64 hexadecimal digits; empty: no TLS
  bool self_made = false;          // no authority vouches for the certificate
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_PAGE_LINK_H_
