#include "launcher/config/save_notice.h"

#include <algorithm>

namespace ddprun {

using std::chrono::milliseconds;

namespace {

// Time for the scheduler to notice the end of the workers.
constexpr std::chrono::seconds kAfterTheEnd{10};

}  // namespace

milliseconds SaveTimeoutWithin(milliseconds notice, milliseconds stop_grace,
                               const JobDraft& draft) {
  const auto given = [&](const char* key) { return draft.origins.count(key) != 0; };
  const milliseconds grace = given("stop_grace") ? draft.config.stop_grace : stop_grace;
  const milliseconds left = std::max<milliseconds>(
      {notice - grace - kAfterTheEnd, (notice - grace) / 2, milliseconds::zero()});
  if (!given("save_timeout")) return left;
  return std::min(left, std::chrono::duration_cast<milliseconds>(draft.config.spec.save_timeout));
}

}  // namespace ddprun
