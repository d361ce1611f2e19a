#include "launcher/text/top/story.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/text/status_table.h"

namespace ddprun::top {
namespace {

// True: half of the hang limit has passed.
bool IsStill(const JobRow& job) {
  return job.progress && job.progress->limit_ms &&
         job.progress->still_ms > *job.progress->limit_ms / 2;
}

std::string WhatIsLeft(const JobRow& job) {
  if (job.restarts.left <= 0) return "no restart is left: the next failure ends the job";
  return RestartsText(job.restarts);
}

std::string WhatTheStateLeadsTo(const std::string& state) {
  if (state == "Gathering") return "it starts by itself as soon as enough nodes are here";
  if (state == "LastCall") return "enough nodes are here: it starts after a short wait for more";
  if (state == "Forming") return "its workers start as soon as every node is ready";
  if (state == "Saving") return "all ranks save at one common step; then its workers are ended";
  if (state == "Draining") return "its workers are being ended";
  if (state == "Backoff") return "it restarts by itself after a pause";
  return "it goes on by itself";
}

}  // namespace

std::string StateWord(const JobRow& job) {
  if (job.over()) return OutcomeText(job.outcome);
  return job.hung() ? "Hung" : job.state;
}

Style MoodOf(const JobRow& job) {
  if (job.outcome == "succeeded" || job.outcome == "left") return Style::kQuiet;
  if (job.outcome == "preempted") return Style::kBusy;
  if (job.over() || job.hung()) return Style::kBad;
  const bool trains = job.state == "Running" || job.state == "Saving";
  return trains && !IsStill(job) ? Style::kGood : Style::kBusy;
}

int UrgencyOf(const JobRow& job) {
  if (job.hung()) return 0;
  const Style mood = MoodOf(job);
  if (mood == Style::kBad) return 1;
  if (job.over()) return 4;
  return mood == Style::kBusy ? 2 : 3;
}

std::string SinceText(const JobRow& job) {
  return job.over() ? absl::StrCat(Age(job.since_ms), " ago")
                    : absl::StrCat("for ", Age(job.since_ms));
}

std::string NowText(const JobRow& job) {
  std::vector<std::string> parts = {
      absl::StrCat(SinceText(job), job.over() ? absl::StrCat(", exit code ", job.exit_code) : "",
                   "; generation ", job.generation)};
  if (!job.reason.empty()) parts.push_back(job.reason);
  if (!job.notes.init.empty()) parts.push_back(job.notes.init);
  if (job.progress && !job.over()) {
    std::string moved = absl::StrCat("a rank moved ", Age(job.progress->still_ms), " ago");
    if (job.progress->limit_ms) {
      absl::StrAppend(&moved, " (limit ", Age(*job.progress->limit_ms), ")");
    }
    parts.push_back(std::move(moved));
  }
  if (!job.notes.not_judged.empty() && !job.over()) {
    parts.push_back(absl::StrCat("hangs are not noticed: ", job.notes.not_judged));
  }
  if (!job.notes.stragglers.empty() && !job.over()) {
    parts.push_back(StragglersText(job.notes.stragglers));
  }
  return absl::StrJoin(parts, "; ");
}

std::string CauseText(const JobRow& job) {
  if (job.hung()) return absl::StrCat("the job ", job.progress->hang);
  if (job.cause.text.empty()) return "nothing has failed";
  return absl::StrCat("in generation ", job.cause.generation, ": ", job.cause.text);
}

std::string NextText(const JobRow& job) {
  if (job.outcome == "succeeded") return "nothing: it is done";
  if (job.outcome == "preempted") {
    return "start the same command again: it goes on from its checkpoint";
  }
  if (job.over()) return "it does not restart by itself: start the same command again";
  if (job.hung()) {
    return absl::StrCat(
        "it goes on by itself if a rank moves, or is restarted where --on-hang says so; ",
        WhatIsLeft(job));
  }
  if (job.state != "Running") {
    return absl::StrCat(WhatTheStateLeadsTo(job.state), "; ", WhatIsLeft(job));
  }
  const std::string still =
      IsStill(job) ? absl::StrCat("it counts as a hang in ",
                                  Age(*job.progress->limit_ms - job.progress->still_ms), "; ")
                   : "";
  return absl::StrCat(still, "it goes on; ", WhatIsLeft(job));
}

}  // namespace ddprun::top
