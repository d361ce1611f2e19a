// The page: rendezvous/http/page/page.html, compiled in.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_SOURCE_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_SOURCE_H_

#include <string>

namespace ddprun::http {

// `__NONCE__` stands for the nonce of its script and style.
const std::string& PageSource();

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_PAGE_SOURCE_H_
