#include "launcher/connection/etcd/meeting_search.h"

#include <algorithm>

namespace ddprun {

TimePoint MeetingSearch::NextRead() const {
  if (hears_) return std::max(silent_since_ + kSilence, last_read_ + kReadOften);
  const bool often = last_read_ < silent_since_ + kOften;
  return last_read_ + (often ? Duration(kReadOften) : Duration(kReadSeldom));
}

MeetingSearch::Next MeetingSearch::OnSeen(const Seen& seen, bool running, TimePoint now) {
  if (seen.endpoint != seen_.endpoint) {
    hears_ = heard_leader_ = refused_ = false;
    silent_since_ = now;
  }
  if (seen.claim_revision != seen_.claim_revision) claim_seen_at_ = now;
  seen_ = seen;
  if (!may_start_ || running || !IsMissing(now)) return Next::kWait;
  const bool holds = seen.claim_revision > seen.leader_revision;
  if (holds && seen.claimant == claimant_ && seen.claim_revision != started_for_) {
    started_for_ = seen.claim_revision;
    return Next::kStart;
  }
  return holds && now < claim_seen_at_ + kClaimLasts ? Next::kWait : Next::kClaim;
}

bool MeetingSearch::IsMissing(TimePoint now) const {
  if (seen_.endpoint.empty() || refused_) return true;
  return now >= silent_since_ + (heard_leader_ ? kSilence : kFirstWord);
}

void MeetingSearch::OnHeard(TimePoint now) {
  hears_ = heard_leader_ = true;
  refused_ = false;
  silent_since_ = now;
}

void MeetingSearch::OnLost(bool refused, TimePoint now) {
  if (std::exchange(hears_, false)) silent_since_ = now;
  refused_ = refused;
}

}  // namespace ddprun
