#include "rendezvous/service/descriptor_guard.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

int ProcessLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  constexpr auto kMost = static_cast<rlim_t>(std::numeric_limits<int>::max());
  return static_cast<int>(std::min(limit.rlim_cur, kMost));
}

}  // namespace

DescriptorGuard::DescriptorGuard(int limit)
    : limit_(limit > 0 ? limit : ProcessLimit()), probe_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  const int for_files = std::clamp(limit_ / 16, 8, 64);
  const int to_hear_why = std::clamp(limit_ / 8, 8, 256);
  connection_limit_ = limit_ - for_files;
  session_limit_ = connection_limit_ - to_hear_why;
}

int DescriptorGuard::InUse() const {
  const UniqueFd lowest_free(fcntl(probe_.get(), F_DUPFD_CLOEXEC, 0));
  return lowest_free.valid() ? lowest_free.get() : limit_;
}

absl::Status DescriptorGuard::CheckSession() const {
  const int in_use = InUse();
  if (in_use <= session_limit_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the rendezvous has too few file descriptors for more agents: ", in_use,
                   " are open and ", limit_,
                   " are possible; raise its limit (ulimit -Hn, LimitNOFILE= of its unit), or use "
                   "another rendezvous"));
}

}  // namespace ddprun
