#include "launcher/os/check.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ddprun {

void DieWithErrno(const char* what) {
  std::fprintf(stderr, "ddprun: internal error: %s: %s\n", what, std::strerror(errno));
  std::abort();
}

void Die(const char* what) {
  std::fprintf(stderr, "ddprun: internal error: %s\n", what);
  std::abort();
}

}  // namespace ddprun
