#include "launcher/os/process/close_descriptors.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace ddprun {
namespace {

void Close(unsigned first, unsigned last) {
  if (first > last || ::syscall(SYS_close_range, first, last, 0U) == 0) return;
  // The kernel has no close_range.
  const auto end = std::min<long>(last, ::sysconf(_SC_OPEN_MAX) - 1);
  for (long fd = first; fd <= end; ++fd) ::close(static_cast<int>(fd));
}

}  // namespace

void CloseDescriptorsBut(std::initializer_list<int> kept) {
  unsigned from = 3;
  for (const int fd : kept) {
    Close(from, static_cast<unsigned>(fd) - 1);
    from = static_cast<unsigned>(fd) + 1;
  }
  Close(from, ~0U);
}

}  // namespace ddprun
