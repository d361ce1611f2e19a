#include "rendezvous/service/leadership/leadership_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kBetweenReads{50};
constexpr std::chrono::milliseconds kBetweenLoads{200};

// Shorter troubles are not logged: an election of etcd takes as long.
constexpr std::chrono::seconds kTrouble{2};

}  // namespace

LeadershipLoop::LeadershipLoop(Options options, Effects effects)
    : options_(std::move(options)),
      effects_(std::move(effects)),
      leadership_(options_.leadership),
      peer_(options_.to_peers, [this](Leadership::Event event) { Post(std::move(event)); }) {}

LeadershipLoop::~LeadershipLoop() {
  Stop();
  const std::lock_guard lock(gate_->mutex);
  gate_->open = false;
}

void LeadershipLoop::Stop() {
  watch_.reset();
  executor_.Shutdown();
  {
    const std::lock_guard lock(mutex_);
    shutdown_ = true;
    wake_.notify_all();
  }
  takeover_.Wait();
  reads_.Wait();
}

void LeadershipLoop::Start() {
  executor_.Start(TimePoint::max());
  Post(Leadership::Tick{});
  watch_ = options_.key->Watch([this](Leadership::LeaderSeen seen) {
    OnAnswer(absl::OkStatus());
    Post(std::move(seen));
  });
}

// ---- the loop's thread ----

TimePoint LeadershipLoop::Handler::Handle(std::vector<Event>& events, TimePoint) {
  for (const Event& event : events) {
    if (const auto* const happened = std::get_if<Leadership::Event>(&event)) {
      loop_->Step(*happened);
    } else {
      loop_->taken_up_ = true;
    }
  }
  loop_->Step(Leadership::Tick{});
  loop_->Publish();
  // Leadership's clock also counts the time in which the machine is suspended. Threads sleep by
  // steady_clock, which does not.
  TimePoint next = loop_->leadership_.NextDeadline();
  const TimePoint now = BootTime();
  const TimePoint valid_until = loop_->options_.validity->until();
  if (valid_until > now) next = std::min(next, valid_until);
  if (next == TimePoint::max()) return next;
  return std::chrono::steady_clock::now() + std::max(next - now, Duration(0));
}

void LeadershipLoop::Step(const Leadership::Event& event) {
  for (const Leadership::Action& action : leadership_.Step(event, BootTime())) {
    std::visit([this](const auto& alternative) { Perform(alternative); }, action);
  }
}

void LeadershipLoop::Perform(const Leadership::ReadLeader&) {
  reads_.Post([this] {
    auto seen = options_.key->Read();
    OnAnswer(seen.status());
    if (seen.ok()) Post(*std::move(seen));
  });
}

void LeadershipLoop::Perform(const Leadership::PutLeader& put) {
  effects_.in_order([this, put, gate = gate_] {
    const std::lock_guard lock(gate->mutex);
    if (gate->open) Put(put);
  });
}

void LeadershipLoop::Perform(const Leadership::Renew& renew) {
  reads_.Post([this, term = renew.term] {
    const auto renewed = options_.key->Renew(term);
    OnAnswer(renewed.status());
    Post(renewed.ok() ? Leadership::Event(*renewed)
                      : Leadership::Event(Leadership::RenewUnanswered{}));
  });
}

void LeadershipLoop::Perform(const Leadership::Lead& lead) {
  takeover_.Post([this, lead] { TakeUp(lead); });
}

void LeadershipLoop::Perform(const Leadership::SetValidUntil& valid) {
  options_.validity->SetUntil(valid.at);
  const bool holds = options_.validity->Holds();
  if (holds && !was_valid_) effects_.on_valid();
  was_valid_ = holds;
}

Leading LeadershipLoop::WhoLeads() const {
  const auto& record = leadership_.leader();
  const bool known = record && !record->resigned;
  Leading leading{Leading::Role::kStandsBy, leadership_.term(), known ? record->endpoint : ""};
  // Also if its leadership is over: this process does not stand by, it ends.
  const bool was_leader = record && record->id == options_.leadership.id;
  if (leadership_.role() == Leadership::Role::kResigning ||
      (leadership_.role() == Leadership::Role::kOver && was_leader)) {
    leading.role = Leading::Role::kHandsOver;
  } else if (leadership_.role() == Leadership::Role::kLeading) {
    leading.role = !taken_up_                   ? Leading::Role::kTakesUp
                   : options_.validity->Holds() ? Leading::Role::kLeads
                                                : Leading::Role::kSilenced;
  }
  return leading;
}

void LeadershipLoop::Publish() {
  if (!options_.validity->Holds()) was_valid_ = false;
  if (leadership_.role() == Leadership::Role::kResigning && !leadership_.hands_over()) return;
  Leading leading = WhoLeads();
  if (leading.role == Leading::Role::kStandsBy && leading.leader != known_leader_) {
    known_leader_ = leading.leader;
    effects_.set_leader(known_leader_);
  }
  options_.board->Set(std::move(leading));
}

// ---- other threads ----

void LeadershipLoop::Put(const Leadership::PutLeader& put) {
  const auto answer = options_.key->Put(put);
  OnPut(answer.status());
  if (!answer.ok() || !answer->taken) ReadBack(put);
  if (answer.ok() && answer->taken && answer->term.cluster == put.cluster) {
    effects_.set_writer(answer->term);
  }
  Post(answer.ok() ? Leadership::Event(*answer) : Leadership::Event(Leadership::PutUnanswered{}));
}

void LeadershipLoop::ReadBack(const Leadership::PutLeader& put) {
  do {
    const auto seen = options_.key->Read();
    OnAnswer(seen.status());
    if (!seen.ok()) continue;
    if (seen->cluster == put.cluster && seen->revision != put.guard && seen->record &&
        seen->record->id == put.record.id) {
      effects_.set_writer({seen->cluster, seen->revision});
    }
    return;
  } while (Sleep(kBetweenReads));
}

void LeadershipLoop::TakeUp(const Leadership::Lead& lead) {
  absl::Status last;
  do {
    // The rest of the takeover hold (docs/internals/leases.md). RendezvousServer::Lead() adds it to
    // steady_clock, which stops while the machine is suspended: that only lengthens the takeover
    // hold.
    const Duration hold = std::max(lead.leases_from - BootTime(), Duration(0));
    const absl::Status status = effects_.lead(lead.term, hold, lead.restored);
    if (status.ok()) {
      executor_.Post(TakenUp{});
      return;
    }
    if (absl::IsDataLoss(status)) return effects_.cannot_lead(status);
    if (status.code() != last.code()) {
      effects_.log(absl::StrCat("leads, but cannot read the jobs yet: ", status.message()));
    }
    last = status;
  } while (Sleep(kBetweenLoads));
}

bool LeadershipLoop::Sleep(Duration duration) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, duration, [this] { return shutdown_; });
}

std::string LeadershipLoop::Trouble::Line(const absl::Status& status, TimePoint now,
                                          absl::string_view bad, absl::string_view good) {
  if (status.ok()) {
    const bool was_logged = logged;
    *this = {};
    return was_logged ? std::string(good) : "";
  }
  if (!since) since = now;
  if (logged || now - *since <= kTrouble) return "";
  logged = true;
  return absl::StrCat(bad, ": ", status.message());
}

void LeadershipLoop::OnAnswer(const absl::Status& status) {
  if (status.ok()) options_.board->OnReached();
  const bool refused = absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  bool cannot_lead = false;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    cannot_lead = refused && !was_answered_;
    was_answered_ = was_answered_ || status.ok();
    text = trouble_.Line(status, BootTime(), "etcd does not answer", "etcd answers again");
  }
  if (!text.empty()) effects_.log(text);
  if (cannot_lead) effects_.cannot_lead(status);
}

void LeadershipLoop::OnPut(const absl::Status& status) {
  OnAnswer(status);
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = put_trouble_.Line(status, BootTime(), "cannot lead: etcd does not take the leader key",
                             "etcd takes the leader key again");
  }
  if (!text.empty()) effects_.log(text);
  if (absl::IsPermissionDenied(status)) effects_.cannot_lead(status);
}

}  // namespace ddprun
