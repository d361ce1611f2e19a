#ifndef DDPRUN_RENDEZVOUS_SERVICE_ERRNO_TEXT_H_
#define DDPRUN_RENDEZVOUS_SERVICE_ERRNO_TEXT_H_

#include <string>
#include <system_error>

#include "absl/strings/ascii.h"

namespace ddprun {

// The text of the errno `error`, in lower case: "address already in use".
inline std::string ErrnoText(int error) {
  return absl::AsciiStrToLower(std::generic_category().message(error));
}

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_ERRNO_TEXT_H_
