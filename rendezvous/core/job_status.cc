#include "rendezvous/core/job_status.h"

#include "absl/strings/str_cat.h"

namespace ddprun {

const char* ToString(JobState state) {
  switch (state) {
    case JobState::kGathering:
      return "Gathering";
    case JobState::kLastCall:
      return "LastCall";
    case JobState::kForming:
      return "Forming";
    case JobState::kRunning:
      return "Running";
    case JobState::kSaving:
      return "Saving";
    case JobState::kStopping:
      return "Draining";
    case JobState::kBackoff:
      return "Backoff";
    case JobState::kSucceeded:
      return "Succeeded";
    case JobState::kFailed:
      return "Failed";
  }
  return "?";
}

std::string Describe(const JobStatus::Arrivals& arrivals, int world_size) {
  std::string text = absl::StrCat(arrivals.arrived, " of ", world_size,
                                  world_size == 1 ? " rank is" : " ranks are", " in init()");
  const int missing = world_size - arrivals.arrived;
  const std::size_t known = arrivals.missing.size();
  if (known == 0)
    return absl::StrCat(text, "; ", missing, missing == 1 ? " is" : " are", " missing");
  absl::StrAppend(&text, "; missing ");
  for (std::size_t i = 0; i < known; ++i) {
    const auto& [rank, host] = arrivals.missing[i];
    const bool last_of_host = i + 1 == known || arrivals.missing[i + 1].host != host;
    absl::StrAppend(&text,
                    i == 0           ? ""
                    : i + 1 == known ? " and "
                                     : ", ",
                    rank.value, last_of_host ? " on " + host : "");
  }
  if (missing > static_cast<int>(known)) absl::StrAppend(&text, " and ", missing - known, " more");
  return text;
}

}  // namespace ddprun
