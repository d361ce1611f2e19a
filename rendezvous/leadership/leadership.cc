#include "rendezvous/leadership/leadership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {

std::vector<Leadership::Action> Leadership::Step(const Event& event, TimePoint now) {
  if (role_ == Role::kOver) return {};
  if (!began_) pacing_.OnRoleBegan(now);
  if (began_ && now - options_.silence / 2 > NextDeadline()) peer_.OnPaused(now);
  began_ = true;
  std::visit([&](const auto& each) { On(each, now); }, event);
  if (role_ == Role::kStandby) TakeOverIfDue(now);
  if (role_ == Role::kLeading) ImproveIfDue(now);
  if (role_ == Role::kLeading) RenewIfDue(now);
  if (role_ == Role::kResigning) ResignIfDue(now);
  if (role_ != Role::kOver) ReadIfDue(now);
  return std::exchange(actions_, {});
}

TimePoint Leadership::NextDeadline() const {
  TimePoint next = TimePoint::max();
  const auto at = [&](TimePoint time) { next = std::min(next, time); };
  if (ReadsTheKey()) at(next_read_);
  switch (role_) {
    case Role::kStandby:
      at(takeover_at_);
      break;
    case Role::kLeading:
      if (!put_ && !renewals_.in_flight) {
        at(renewals_.next);
        if (leader_->longest_validity > options_.validity) at(hold_.until);
        if (leader_->complete_in != term_.cluster) at(hold_.until + options_.longest_lease);
      }
      if (!renewals_.expired) at(valid_until_);
      break;
    case Role::kResigning:
      at(resign_by_);
      break;
    case Role::kTakingOver:
    case Role::kOver:
      break;
  }
  return next;
}

bool Leadership::ReadsTheKey() const {
  switch (role_) {
    case Role::kStandby:
      return true;
    case Role::kTakingOver:
    case Role::kLeading:
      return IsUnsettled();
    case Role::kResigning:
      return !put_ || IsUnsettled();
    case Role::kOver:
      break;
  }
  return false;
}

void Leadership::ReadIfDue(TimePoint now) {
  if (!ReadsTheKey() || now < next_read_) return;
  next_read_ = now + (role_ == Role::kStandby ? options_.read_every : options_.try_every);
  Say(ReadLeader{});
}

void Leadership::On(const LeaderSeen& seen, TimePoint now) {
  switch (role_) {
    case Role::kTakingOver:
      if (!IsUnsettled() || IsStale(seen)) break;  // the answer to our write decides
      put_.reset();
      role_ = Role::kStandby;
      [[fallthrough]];
    case Role::kStandby:
      if (IsNews(seen)) Adopt(seen, now);
      break;
    case Role::kLeading:
    case Role::kResigning:
      OnSeenByOwner(seen, now);
      break;
    case Role::kOver:
      break;
  }
}

// ---- standby ----

bool Leadership::IsStale(const LeaderSeen& seen) const {
  return known_ && seen.cluster == term_.cluster && seen.revision != 0 &&
         seen.revision < term_.revision;
}

bool Leadership::IsNews(const LeaderSeen& seen) const {
  return !IsStale(seen) &&
         (!known_ || seen.cluster != term_.cluster || seen.revision != term_.revision);
}

void Leadership::Adopt(const LeaderSeen& seen, TimePoint now) {
  const Term term{seen.cluster, seen.revision};
  const bool known_cluster = known_ && term.cluster == term_.cluster;
  if (known_cluster && seen.record && seen.record->id == options_.id) {
    // A write of ours that was given up took its effect late. (Another cluster may have been
    // restored with such a write. Others may have led since then, so it makes nobody a leader.)
    Settle(term, *seen.record, std::nullopt, now);
    return;
  }
  if (known_ && !known_cluster) {
    Log("etcd is another cluster than before: it was replaced, or restored from a snapshot");
  }
  known_ = true;
  term_ = term;
  leader_ = seen.record;
  if (leader_) Remember(*leader_);
  term_seen_at_ = now;
  next_put_ = now;  // under another guard than the one before
  reason_.clear();
  const bool leads = leader_ && !leader_->resigned && leader_->endpoint != options_.endpoint;
  const std::string endpoint = leads ? leader_->endpoint : "";
  if (endpoint != peer_.endpoint()) Say(WatchPeer{endpoint});
  peer_.Watch(endpoint, now);
  if (leads) {
    Log(absl::StrCat("stands by: ", endpoint, " leads, term ", term.revision));
  } else if (!leader_ && term.revision != 0) {
    Log("stands by: no rendezvous wrote the value of etcd's leader key; remove the key if no "
        "rendezvous leads");
  }
}

Duration Leadership::Inherited() const {
  // There was no key, or it is from a snapshot: who led since then is not known.
  if (!leader_ || leader_->complete_in != term_.cluster) {
    return std::max(longest_seen_, options_.validity);
  }
  const Duration longest = std::max(leader_->validity, leader_->longest_validity);
  return leader_->resigned ? leader_->longest_validity : longest;
}

void Leadership::Remember(const LeaderRecord& record) {
  longest_seen_ = std::max({longest_seen_, record.validity, record.longest_validity});
}

bool Leadership::IsComplete(TimePoint now) const {
  if (!leader_) return false;
  if (leader_->complete_in == term_.cluster) return true;
  return role_ != Role::kStandby && role_ != Role::kTakingOver &&
         now >= hold_.until + options_.longest_lease;
}

TimePoint Leadership::TakeoverAt(TimePoint now) const {
  if (!known_ || (!leader_ && term_.revision != 0)) return TimePoint::max();
  if (!leader_ || leader_->resigned || peer_.gone() == PeerWatch::kResigns) return next_put_;
  const TimePoint may = std::max(next_put_, term_seen_at_ + pacing_.Wait(now));
  if (peer_.endpoint().empty() || peer_.gone() == PeerWatch::kRefused) return may;
  return std::max(may, peer_.SilentAt());
}

std::string Leadership::ReasonToTakeOver() const {
  if (!leader_) return "nobody leads";
  const std::string& endpoint = leader_->endpoint;
  if (leader_->resigned || peer_.gone() == PeerWatch::kResigns) {
    return absl::StrCat(endpoint, " hands over");
  }
  if (peer_.endpoint().empty()) return "the leader was an earlier process of this address";
  if (peer_.gone() == PeerWatch::kRefused)
    return absl::StrCat("the process of ", endpoint, " is gone");
  return absl::StrCat(endpoint, " is silent, or does not reach etcd");
}

void Leadership::TakeOverIfDue(TimePoint now) {
  takeover_at_ = TakeoverAt(now);
  if (now < takeover_at_) return;
  const std::string reason = ReasonToTakeOver();
  if (reason != reason_) Log(absl::StrCat("takes over: ", reason));
  reason_ = reason;
  LeaderRecord record = OwnRecord(std::max(options_.validity, Inherited()), now);
  role_ = Role::kTakingOver;
  Put(std::move(record), now);
}

}  // namespace ddprun
