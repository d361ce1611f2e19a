// PageLink: the values with which an operator opens the page of a rendezvous.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_PAGE_LINK_H_
#define DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_PAGE_LINK_H_

#include <string>

namespace ddprun {

struct PageLink {
  std::string host;  // where the page listens; empty: on every address of the host
  int port = 0;
  std::string code;                // good once, for a minute
  std::string certificate_sha256;  // 64 hexadecimal digits; empty: no TLS
  bool self_made = false;          // the certificate is self-signed
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_PAGE_LINK_H_
