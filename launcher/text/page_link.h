// The link that `ddprun page` prints. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_PAGE_LINK_H_
#define DDPRUN_LAUNCHER_TEXT_PAGE_LINK_H_

#include <string>

namespace ddprun {

// "https://head:29480/#code=CODE&job=exp%207". The code is in the fragment, which a browser never
// sends. `job` may be empty.
std::string PageUrl(bool tls, const std::string& endpoint, const std::string& code,
                    const std::string& job);

// "1f2e..." → "1F:2E:...", the form in browsers.
std::string Fingerprint(const std::string& hexadecimal);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_PAGE_LINK_H_
