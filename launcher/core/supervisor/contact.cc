#include "launcher/core/supervisor/contact.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/core/lease.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

// How long an agent waits for the first message of the rendezvous before it logs that it waits.
constexpr std::chrono::seconds kQuietWait{1};

}  // namespace

void Contact::Had(TimePoint at, TimePoint now) { last_ = std::max(last_, std::min(at, now)); }

void Contact::Answered(TimePoint sent_at, TimePoint now) {
  Had(sent_at, now);
  round_trip_ = std::max(now - sent_at, Duration{});
}

std::string Contact::Heard() {
  ever_ = true;
  if (std::exchange(why_lost_, "").empty()) return "";
  return absl::StrCat("connected to ", options_.rendezvous);
}

Contact::Standing Contact::StandingOf(const Term& term) const {
  if (term.none()) return several() ? Standing::kPast : Standing::kPresent;
  if (term == term_) return Standing::kPresent;
  if (term_.none()) return Standing::kLater;
  if (term.cluster == other_.cluster && term.revision < other_.revision) return Standing::kPast;
  if (term.cluster != term_.cluster) return Standing::kOtherCluster;
  return term.revision < term_.revision ? Standing::kPast : Standing::kLater;
}

void Contact::Adopt(const Term& term) {
  term_ = term;
  other_ = {};
  past_told_ = false;
}

TimePoint Contact::FenceAt() const { return FenceTime(last_, options_.spec.lease); }

TimePoint Contact::BackstopAt() const { return FenceAt() + BackstopDelay(options_.spec.lease); }

std::optional<TimePoint> Contact::GiveUpAt() const {
  if (!lost_since_) return std::nullopt;
  return *lost_since_ + (ever_ ? options_.daemon_grace : options_.connect_timeout);
}

std::string Contact::WhyGivenUp(TimePoint now) const {
  std::string reason =
      why_lost_.empty() ? absl::StrCat(options_.rendezvous, " does not answer") : why_lost_;
  if (options_.leases) {
    absl::StrAppend(&reason, "; gave up after ", TenthsOfSeconds(now - lost_since_.value_or(now)));
  }
  if (!ever_ && !options_.unreachable_hint.empty()) {
    absl::StrAppend(&reason, "; ", options_.unreachable_hint);
  }
  return reason;
}

std::optional<TimePoint> Contact::WaitingNoteAt() const {
  if (!lost_since_ || ever_ || waiting_noted_) return std::nullopt;
  return *lost_since_ + kQuietWait;
}

std::string Contact::TakeWaitingNote() {
  waiting_noted_ = true;
  return absl::StrCat("waiting for ", options_.rendezvous, ", at most ",
                      Seconds(options_.connect_timeout),
                      why_lost_.empty() ? "" : "; so far: ", why_lost_,
                      options_.unreachable_hint.empty() ? "" : "; ", options_.unreachable_hint);
}

}  // namespace ddprun
