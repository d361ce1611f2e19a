#include "tests/simulation/contender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"
#include "worker/contract/overloaded.h"

namespace ddprun::sim {
namespace {

constexpr Time kCallLimit = kSecond;
constexpr Time kPeerInterval = 150 * kMillisecond;
constexpr Time kWriteAgain = 100 * kMillisecond;

std::string EndpointOf(int number) { return absl::StrCat("r", number); }

std::string IdOf(int number, int process) { return absl::StrCat(EndpointOf(number), "#", process); }

int NumberOf(const std::string& endpoint) {
  int number = -1;
  if (endpoint.size() < 2 || !absl::SimpleAtoi(endpoint.substr(1), &number)) return -1;
  return number;
}

}  // namespace

Contender::Contender(World* world, Daemon* daemon, int number)
    : world_(world), daemon_(daemon), number_(number) {}

TimePoint Contender::Now() const { return daemon_->Now(); }

bool Contender::HoldsKey() const {
  const Etcd::Answer& now = world_->etcd.now();
  if (now.found.cluster != core_->term().cluster) return false;    // etcd was restored meanwhile
  return now.leader && now.leader->id == IdOf(number_, process_);  // also true after it resigned
}

bool Contender::MaySpeak() const {
  return world_->bug == Bug::kAckAfterValidity ? leads_ : Now() < valid_until_;
}

void Contender::Begin(int ousted) {
  ++process_;
  Leadership::Options options;
  options.id = IdOf(number_, process_);
  options.endpoint = EndpointOf(number_);
  options.validity = world_->plan.several.validity[world_->several_random.Int(0, 1)];
  options.ousted = ousted;
  core_ = std::make_unique<Leadership>(options);
  reads_.clear();
  puts_.clear();
  writes_.clear();
  writing_ = pausing_ = uncertain_ = false;
  reading_ = false;
  ++watch_;
  peer_ = -1;
  leads_ = told_ = false;
  term_ = writer_ = {};
  valid_until_ = {};
  state_revision_ = 0;
  tick_at_ = -1;
  Step(Leadership::Tick{});
}

void Contender::Step(const Leadership::Event& event) {
  const int process = process_;
  for (const Leadership::Action& action : core_->Step(event, Now())) {
    Perform(action);
    if (process != process_ || !daemon_->up()) return;  // the process ended
  }
  ScheduleTick();
}

void Contender::ScheduleTick() {
  const TimePoint deadline = core_->NextDeadline();
  if (deadline == TimePoint::max()) return;
  const Time at = daemon_->TrueTime(deadline);
  if (tick_at_ >= 0 && tick_at_ <= at) return;
  tick_at_ = at + world_->several_random.Between(0, 2000) * 1000;
  world_->scheduler.At(tick_at_, [this, at = tick_at_, process = process_] {
    if (process != process_ || tick_at_ != at) return;
    daemon_->Post([this, process] {
      if (process != process_) return;
      tick_at_ = -1;
      Step(Leadership::Tick{});
    });
  });
}

void Contender::Perform(const Leadership::Action& action) {
  std::visit(Overloaded{
                 [&](const Leadership::ReadLeader&) {
                   if (!std::exchange(reading_, true)) Enqueue([this] { Read(); });
                 },
                 [&](const Leadership::WatchPeer& watch) {
                   peer_ = NumberOf(watch.endpoint);
                   AskPeer(++watch_);
                 },
                 [&](const Leadership::PutLeader& put) {
                   puts_.push_back([this, put, replaces = core_->leader()] { Put(put, replaces); });
                   WriteNext();
                 },
                 [&](const Leadership::Renew&) { Enqueue([this] { Renew(); }); },
                 [&](const Leadership::Lead& lead) {
                   term_ = lead.term;
                   ++world_->result.takeovers;
                   Load(lead);
                 },
                 [&](const Leadership::ChangeTerm& change) { term_ = change.term; },
                 [&](const Leadership::SetValidUntil& valid) {
                   valid_until_ = valid.at;
                   if (leads_ && MaySpeak()) daemon_->OnValidity();
                   if (leads_ && MaySpeak() && !std::exchange(told_, true)) TellAgents();
                 },
                 [&](const Leadership::StepDown& down) {
                   world_->recorder.Line(absl::StrCat("r", number_, " steps down: ", down.why));
                   if (down.resigned) {
                     daemon_->End();
                   } else {
                     daemon_->ExecuteAgain(down.ousted);
                   }
                 },
                 [&](const Leadership::Note& note) {
                   world_->recorder.Line(absl::StrCat("r", number_, ": ", note.text));
                 },
             },
             action);
}

// ---- etcd ----

void Contender::Enqueue(Task task) {
  reads_.push_back(std::move(task));
  if (reads_.size() == 1) Task(reads_.front())();
}

void Contender::Next() {
  reads_.pop_front();
  if (!reads_.empty()) Task(reads_.front())();
}

// One write at a time. The leader key comes before a state whose write is repeated.
void Contender::WriteNext() {
  if (writing_) return;
  if (!puts_.empty()) {
    writing_ = true;
    const Task put = std::move(puts_.front());
    puts_.pop_front();
    put();
  } else if (!writes_.empty() && !pausing_) {
    writing_ = true;
    if (uncertain_) {
      ReadBack();
    } else {
      TryToWrite();
    }
  }
}

void Contender::OnWritten() {
  writing_ = false;
  WriteNext();
}

void Contender::Ask(const Etcd::Request& request, const Etcd::Done& done) {
  world_->etcd.Ask(
      number_, request, kCallLimit, [this, done, process = process_](const Etcd::Answer* answer) {
        const bool answered = answer != nullptr;
        daemon_->Post([this, done, process, answered, copy = answered ? *answer : Etcd::Answer()] {
          if (process == process_) done(answered ? &copy : nullptr);
        });
      });
}

void Contender::Read() {
  Ask({}, [this, sent_at = Now()](const Etcd::Answer* answer) {
    reading_ = false;
    Next();
    if (answer == nullptr) return;
    Step(Leadership::LeaderSeen{answer->found.cluster, answer->found.revision, answer->leader,
                                sent_at});
  });
}

void Contender::Put(const Leadership::PutLeader& put, const std::optional<LeaderRecord>& replaces) {
  Etcd::Request request;
  request.leader_guard = put.guard;
  if (replaces && world_->bug != Bug::kTwoLeadersFromOne) request.leader_id_guard = replaces->id;
  if (world_->bug == Bug::kTwoLeadersFromOne && !put.record.resigned) request.leader_guard.reset();
  request.leader = put.record;
  if (world_->bug == Bug::kVmaxForgotten) request.leader->longest_validity = put.record.validity;
  Ask(request, [this, put, sent_at = Now()](const Etcd::Answer* answer) {
    const int process = process_;
    if (answer == nullptr) {
      Step(Leadership::PutUnanswered{});
      if (process == process_) SeekPut(put);
      return;
    }
    if (answer->guarded) {
      writer_ = {answer->found.cluster, answer->revision};
      Step(Leadership::PutAnswered{true, writer_, sent_at});
    } else {
      Step(Leadership::PutAnswered{});
    }
    if (process == process_) OnWritten();
  });
}

// Finds out whether the write was kept, before any other write.
void Contender::SeekPut(const Leadership::PutLeader& put) {
  Ask({}, [this, put](const Etcd::Answer* answer) {
    if (answer == nullptr) return SeekPut(put);
    const bool ours = answer->leader && answer->leader->id == put.record.id;
    if (answer->found.cluster == put.cluster && answer->found.revision != put.guard && ours) {
      writer_ = answer->found;
    }
    OnWritten();
  });
}

void Contender::Renew() {
  const TimePoint sent_at = Now();
  if (world_->bug == Bug::kStaleRenewal && world_->etcd.CutOff(number_)) {
    Next();
    Step(Leadership::RenewAnswered{world_->etcd.Stale(number_).found, sent_at});
    return;
  }
  Ask({}, [this, sent_at](const Etcd::Answer* answer) {
    Next();
    if (answer == nullptr) {
      Step(Leadership::RenewUnanswered{});
    } else {
      Step(Leadership::RenewAnswered{answer->found, sent_at});
    }
  });
}

void Contender::Load(const Leadership::Lead& lead) {
  Ask({}, [this, lead](const Etcd::Answer* answer) {
    if (answer == nullptr) return Load(lead);
    if (answer->found.cluster != lead.term.cluster) {  // restored meanwhile
      Step(Leadership::RightLost{});
      return;
    }
    state_revision_ = answer->state_revision;
    writer_ = lead.term;
    leads_ = true;
    daemon_->Lead(
        answer->state.get(), world_->bug == Bug::kNoHold ? Now() : lead.leases_from,
        lead.restored && world_->plan.several.restores && world_->bug != Bug::kNoHoldAfterRestore);
    if (MaySpeak() && !std::exchange(told_, true)) TellAgents();
  });
}

void Contender::Write(std::shared_ptr<const Etcd::Stored> state, std::function<void()> kept) {
  writes_.push_back({std::move(state), std::move(kept)});
  WriteNext();
}

void Contender::TryToWrite() {
  Etcd::Request request;
  request.leader_guard = writer_.revision;
  request.leader_id_guard = IdOf(number_, process_);
  request.state_guard = state_revision_;
  if (world_->bug == Bug::kUnguardedWrite) {
    request.leader_guard.reset();
    request.leader_id_guard.reset();
  }
  if (world_->bug == Bug::kUnguardedWrite || world_->bug == Bug::kDelayedDuplicate) {
    request.state_guard.reset();
  }
  request.state = writes_.front().state;
  Ask(request, [this, state = writes_.front().state](const Etcd::Answer* answer) {
    if (answer == nullptr) return WriteLater(true);
    if (answer->found.cluster != writer_.cluster) {  // as above
      Step(Leadership::RightLost{});
      return;
    }
    const bool ours = answer->found == writer_ || world_->bug == Bug::kUnguardedWrite;
    if (!answer->guarded &&
        !(ours && answer->state != nullptr && answer->state->write == state->write)) {
      Step(Leadership::RightLost{});
      return;
    }
    OnKept(answer->state_revision);
  });
}

// Finds the result of a write without an answer, before the next write of a state.
void Contender::ReadBack() {
  Ask({}, [this, state = writes_.front().state](const Etcd::Answer* answer) {
    if (answer == nullptr) return WriteLater(true);
    if (answer->found != writer_) {
      Step(Leadership::RightLost{});
    } else if (answer->state != nullptr && answer->state->write == state->write) {
      OnKept(answer->state_revision);
    } else if (answer->state_revision == state_revision_) {
      WriteLater(false);  // not written, or not yet
    } else {
      Step(Leadership::RightLost{});
    }
  });
}

void Contender::OnKept(std::uint64_t revision) {
  state_revision_ = revision;
  uncertain_ = false;
  const std::function<void()> kept = std::move(writes_.front().kept);
  writes_.pop_front();
  const int process = process_;
  OnWritten();
  if (process == process_) kept();
}

void Contender::WriteLater(bool uncertain) {
  uncertain_ = uncertain;
  pausing_ = uncertain;
  if (pausing_) {
    world_->scheduler.After(kWriteAgain, [this, process = process_] {
      daemon_->Post([this, process] {
        if (process != process_) return;
        pausing_ = false;
        WriteNext();
      });
    });
  }
  OnWritten();
}

// ---- other processes ----

// Simulates the pushes of the leader on the link by questions and answers.
void Contender::AskPeer(int watch) {
  if (watch != watch_ || peer_ < 0) return;
  const int process = process_;
  const int peer = peer_;
  const auto tell = [this, watch, process](auto event) {
    daemon_->Post([this, watch, process, event = std::move(event)] {
      if (watch == watch_ && process == process_) Step(event);
    });
  };
  world_->network.SendBetween(number_, peer, [this, peer, tell] {
    Daemon& other = *world_->daemons[peer];
    const auto reply = [this, peer, tell](auto event) {
      world_->network.SendBetween(peer, number_, [tell, event] { tell(event); });
    };
    if (!other.up()) {
      if (other.refuses()) reply(Leadership::PeerRefused{EndpointOf(peer)});
      return;
    }
    other.Post([&other, peer, reply] {
      const Contender& leader = *other.contender();
      const Leadership::Role role = leader.core_->role();
      if (leader.HandsOver()) {
        reply(Leadership::PeerResigns{EndpointOf(peer)});
      } else if (role == Leadership::Role::kResigning ||
                 (role == Leadership::Role::kLeading && leader.MaySpeak())) {
        reply(Leadership::PeerHeard{EndpointOf(peer)});
      }
    });
  });
  world_->scheduler.After(kPeerInterval, [this, watch, process] {
    daemon_->Post([this, watch, process] {
      if (process == process_) AskPeer(watch);
    });
  });
}

void Contender::TellAgents() {
  for (const auto& agent : world_->agents) {
    if (agent->alive()) TellAgent(agent->id());
  }
}

void Contender::TellAgent(int agent) {
  if (!leads_ || !MaySpeak()) return;
  Agent& to = *world_->agents[agent];
  world_->network.SendOnce(
      to.host(), kDown, [&to, number = number_, term = term_] { to.OnLeader(number, term); },
      number_);
}

}  // namespace ddprun::sim
