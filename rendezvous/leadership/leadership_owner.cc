// Leadership: what a process does that writes, or has written, the leader key.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/leadership/leadership.h"

namespace ddprun {
namespace {

std::int64_t Milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

LeaderRecord Leadership::OwnRecord(Duration longest_validity, TimePoint now) const {
  return {options_.id,
          options_.endpoint,
          options_.validity,
          longest_validity,
          false,
          IsComplete(now) ? term_.cluster : 0};
}

void Leadership::Put(LeaderRecord record, TimePoint now) {
  put_ = OwnPut{std::move(record)};
  next_put_ = now + options_.try_every;
  next_read_ = now;  // reads the key if the answer is lost
  Say(PutLeader{term_.revision, put_->record, term_.cluster});
}

// Under the same guard: of all these writes at most one takes effect, however late.
void Leadership::PutAgain(TimePoint now) {
  if (now >= next_put_) Put(std::move(put_->record), now);
}

void Leadership::On(const PutAnswered& answer, TimePoint now) {
  if (!put_ || !put_->in_flight) return;
  if (!answer.taken) {
    // Another rendezvous' write was first, or an earlier write of this one: the record's id shows
    // which.
    put_->in_flight = false;
    return;
  }
  if (known_ && answer.term.cluster != term_.cluster) {
    LoseTo(answer.term, "", now);
    return;
  }
  const LeaderRecord record = std::move(put_->record);
  Settle(answer.term, record, answer.sent_at, now);
}

void Leadership::On(const PutUnanswered&, TimePoint) {
  if (put_) put_->in_flight = false;
}

void Leadership::Settle(const Term& term, LeaderRecord record, std::optional<TimePoint> valid_from,
                        TimePoint now) {
  put_.reset();
  if (role_ != Role::kLeading && role_ != Role::kResigning) {
    hold_.inherited = Inherited();
    // 1.1 × W: the clocks of two machines may differ by 10 % in rate.
    hold_.until = now + hold_.inherited + hold_.inherited / 10;
    role_ = Role::kLeading;
    renewals_ = {.next = valid_from ? *valid_from + options_.renew_every : now,
                 .expired = !valid_from};
    pacing_.OnRoleBegan(now);
    if (!peer_.endpoint().empty()) Say(WatchPeer{""});
    peer_.Watch("", now);
    const bool restored = record.complete_in != term.cluster;
    Say(Lead{term, hold_.until, restored});
    Log(absl::StrCat("leads, term ", term.revision, "; ",
                     restored ? "etcd is new, or was emptied or restored: no job forms within "
                              : "ranks of lost nodes are kept for ",
                     Milliseconds(hold_.until - now), " ms and one lease"));
  } else if (role_ == Role::kLeading) {
    Say(ChangeTerm{term});
  }
  known_ = true;
  term_ = term;
  Remember(record);
  leader_ = std::move(record);
  if (role_ == Role::kLeading && valid_from) Extend(*valid_from, now);
}

void Leadership::OnSeenByOwner(const LeaderSeen& seen, TimePoint now) {
  if (seen.cluster != term_.cluster) {
    LoseTo({seen.cluster, seen.revision}, "", now);
  } else if (seen.revision == 0) {
    // This was read before our takeover, or the key was removed. The renewal will show which.
    if (IsUnsettled()) {
      LoseTo({seen.cluster, 0}, "", now);
    } else {
      renewals_.next = now;
    }
  } else if (seen.revision == term_.revision) {
    // While etcd takes no writes, ours stays unsettled, and reads are the renewals.
    if (role_ == Role::kLeading && seen.sent_at) Extend(*seen.sent_at, now);
    if (IsUnsettled()) PutAgain(now);
  } else if (seen.revision > term_.revision) {
    if (!seen.record || seen.record->id != options_.id) {
      LoseTo({seen.cluster, seen.revision}, seen.record ? seen.record->endpoint : "", now);
    } else if (IsUnsettled()) {
      Settle({seen.cluster, seen.revision}, *seen.record, std::nullopt, now);
    }
  }
}

// ---- renewals ----

void Leadership::RenewIfDue(TimePoint now) {
  if (!renewals_.expired && now >= valid_until_) {
    renewals_.expired = true;
    Log(absl::StrCat(
        "has not reached etcd for ", Milliseconds(options_.validity),
        " ms: acknowledges nothing until it does; agents end their workers by their leases"));
  }
  if (put_ || renewals_.in_flight || now < renewals_.next) return;
  renewals_.in_flight = true;
  renewals_.next = now + options_.renew_every;
  Say(Renew{term_});
}

void Leadership::Extend(TimePoint valid_from, TimePoint now) {
  valid_until_ = std::max(valid_until_, valid_from + options_.validity);
  Say(SetValidUntil{valid_until_});
  if (now >= valid_until_) return;
  if (renewals_.failed) Log("reaches etcd again, and continues");
  renewals_.failed = false;
  renewals_.expired = false;
}

void Leadership::On(const RenewAnswered& answer, TimePoint now) {
  renewals_.in_flight = false;
  if (role_ != Role::kLeading) return;
  if (answer.found != term_) {
    LoseTo(answer.found, "", now);
  } else if (answer.revision < renewals_.newest) {
    StepDownFor(
        absl::StrCat("etcd's revision went back from ", renewals_.newest, " to ", answer.revision,
                     ": it was restored from a snapshot, as the same cluster"),
        false, pacing_.OustedAgain(now));
  } else {
    renewals_.newest = answer.revision;
    Extend(answer.sent_at, now);
  }
}

void Leadership::On(const RenewUnanswered&, TimePoint now) {
  renewals_.in_flight = false;
  if (role_ != Role::kLeading || renewals_.failed) return;
  renewals_.failed = true;
  if (renewals_.expired) return;
  Log(absl::StrCat("etcd has not answered a renewal: acknowledges for another ",
                   Milliseconds(std::max(valid_until_ - now, Duration{})), " ms"));
}

// After the takeover hold, the record has a lower validity. Once no unknown job can run any more,
// it has the cluster in `complete_in`.
void Leadership::ImproveIfDue(TimePoint now) {
  if (put_ || renewals_.in_flight || now < hold_.until) return;
  const bool shorter = leader_->longest_validity > options_.validity;
  const bool complete = leader_->complete_in != term_.cluster && IsComplete(now);
  if (shorter || complete) Put(OwnRecord(options_.validity, now), now);
}

// ---- the end ----

void Leadership::On(const RightLost&, TimePoint now) {
  if (role_ == Role::kLeading || role_ == Role::kResigning) LoseTo({}, "", now);
}

void Leadership::On(const EndAsked&, TimePoint now) {
  switch (role_) {
    case Role::kStandby:
    case Role::kTakingOver:  // if its write still takes effect, the others find its process gone
      StepDownFor("is asked to end", true, 0);
      break;
    case Role::kLeading:
      role_ = Role::kResigning;
      valid_until_ = TimePoint();
      resign_by_ = now + options_.handover;
      next_read_ = now;
      Say(SetValidUntil{valid_until_});
      Log("is asked to end: hands over");
      break;
    case Role::kResigning:
    case Role::kOver:
      break;
  }
}

void Leadership::ResignIfDue(TimePoint now) {
  if (now >= resign_by_) {
    StepDownFor(absl::StrCat("is asked to end; nobody has taken over within ",
                             Milliseconds(options_.handover), " ms"),
                true, 0);
    return;
  }
  if (put_ || (leader_ && leader_->resigned && leader_->id == options_.id)) return;
  // Earlier leaders may still acknowledge until our takeover hold ends, so the successor must wait
  // for them.
  LeaderRecord record = OwnRecord(now < hold_.until ? hold_.inherited : Duration{}, now);
  record.resigned = true;
  Put(std::move(record), now);
}

void Leadership::LoseTo(const Term& found, const std::string& who, TimePoint now) {
  if (role_ == Role::kResigning) {
    StepDownFor("has handed over", true, 0);
    return;
  }
  std::string why = "another rendezvous leads";
  if (found.cluster != 0 && found.cluster != term_.cluster) {
    why = "etcd is another cluster than before: it was replaced, or restored from a snapshot";
  } else if (found.cluster != 0 && found.none()) {
    why = "etcd's leader key was removed";
  } else if (!who.empty()) {
    why = absl::StrCat(who, " leads since term ", found.revision);
  } else if (!found.none()) {
    why = absl::StrCat("another rendezvous leads since term ", found.revision);
  }
  StepDownFor(std::move(why), false, pacing_.OustedAgain(now));
}

void Leadership::StepDownFor(std::string why, bool resigned, int ousted) {
  role_ = Role::kOver;
  put_.reset();
  if (valid_until_ != TimePoint()) Say(SetValidUntil{TimePoint()});
  valid_until_ = TimePoint();
  if (!peer_.endpoint().empty()) Say(WatchPeer{""});
  Say(StepDown{resigned, std::move(why), ousted});
}

}  // namespace ddprun
