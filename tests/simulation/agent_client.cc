// Agent: its session with the rendezvous, and the attempts to open a session.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/agent.h"
#include "tests/simulation/text.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {

// So that even the shortest lease sees at least one attempt.
Time Agent::ThirdOfLease() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(world_->plan.spec.lease).count() / 3;
}

void Agent::Connect() {
  if (!alive_) return;
  attempting_ = true;
  const int attempt = ++attempt_;
  world_->scheduler.After(attempt_limit_, [this, attempt] {
    Post([this, attempt] { AttemptFailed(attempt, {"no answer", false, {}}); });
  });
  Syn(attempt, Now());
}

void Agent::Syn(int attempt, TimePoint started) {
  if (!alive_ || !attempting_ || attempt != attempt_) return;
  const int number = target_;
  if (!world_->network.IsCut(host_, kUp, number)) {
    const auto arrived = [this, attempt, started, number] {
      Daemon& daemon = *world_->daemons[number];
      const auto refuse = [this, number](auto answer) {
        const auto post = [this, answer] { Post(answer); };
        world_->network.SendOnce(host_, kDown, post, number);
      };
      if (!daemon.up()) {
        if (!daemon.refuses()) return;
        refuse([this, attempt, started] { OnRefused(attempt, started); });
        return;
      }
      daemon.Post([this, attempt, number, refuse, &daemon] {
        if (!daemon.serves()) {
          refuse([this, attempt] { AttemptFailed(attempt, {"it stands by", false, {}}); });
          return;
        }
        const SessionPtr session = world_->network.Open(host_, id_, number);
        session->server_open = true;
        session->boot = daemon.boot();
        world_->network.Send(session, kDown, [this, attempt, session] {
          Post([this, attempt, session] { OnOpened(attempt, session); });
        });
      });
    };
    world_->network.SendOnce(host_, kUp, arrived, number);
    return;
  }
  world_->scheduler.After(kSecond, [this, attempt, started] { Syn(attempt, started); });
}

void Agent::OnOpened(int attempt, const SessionPtr& session) {
  if (attempt != attempt_ || !attempting_) {  // the attempt was given up
    world_->network.Send(session, kUp, [this, session] { world_->ServerEndLost(session); });
    return;
  }
  if (session->broken) {  // it broke meanwhile
    AttemptFailed(attempt, {"reset", false, {}});
    return;
  }
  attempting_ = false;
  session->agent_open = true;
  session_ = session;
  world_->recorder.Event(kSessionOpened, session->id, id_);
  world_->recorder.Line(absl::StrCat(Name(), " has session s", session->id));
  Step(Supervisor::SessionOpened{});
}

void Agent::OnRefused(int attempt, TimePoint started) {
  AttemptFailed(attempt, {"connection refused", true, started});
}

void Agent::AttemptFailed(int attempt, Supervisor::SessionLost lost) {
  if (attempt != attempt_ || !attempting_) return;
  attempting_ = false;
  target_ = (target_ + 1) % world_->plan.several.daemons;
  if (!lost.refused) attempt_limit_ = std::min(2 * attempt_limit_, 10 * kSecond);
  Step(lost);
  const Time whole = std::max(backoff_, 50 * kMillisecond);
  backoff_ = std::min(2 * whole, std::min(kSecond, ThirdOfLease()));
  world_->scheduler.After(world_->random.Between(whole / 2, whole), [this, attempt] {
    Post([this, attempt] {
      if (attempt == attempt_) Connect();  // no newer attempt has begun, to a new leader
    });
  });
}

void Agent::OnSessionLost(const SessionPtr& session, const char* why) {
  Post([this, session, why] {
    if (session_ != session) return;
    world_->recorder.Event(kSessionLost, session->id, 0);
    world_->recorder.Line(absl::StrCat(Name(), " lost session s", session->id, ": ", why));
    CloseSession();
    attempting_ = true;
    AttemptFailed(attempt_, {why, false, {}});
  });
}

void Agent::AskWhoLeads() {
  for (int number = 0; number < world_->plan.several.daemons; ++number) {
    Daemon& daemon = *world_->daemons[number];
    const auto arrived = [this, &daemon] {
      if (daemon.up()) daemon.Post([this, &daemon] { daemon.contender()->TellAgent(id_); });
    };
    world_->network.SendOnce(host_, kUp, arrived, number);
  }
  world_->scheduler.After(kSecond, [this] {
    if (alive_) Post([this] { AskWhoLeads(); });
  });
}

void Agent::OnLeader(int number, const Term& term) {
  Post([this, number, term] {
    // A later cluster has a higher number.
    const auto rank = [](const Term& of) { return std::pair(of.cluster, of.revision); };
    if (rank(term) < rank(leader_) && world_->bug != Bug::kTermNotChecked) return;
    leader_ = rank(leader_) < rank(term) ? term : leader_;
    const int present = session_ != nullptr ? session_->daemon : attempting_ ? target_ : -1;
    if (present == number) return;
    if (session_ != nullptr) {
      CloseSession();
      Step(Supervisor::SessionLost{"another rendezvous leads", false, {}});
    }
    target_ = number;
    backoff_ = 0;
    Connect();
  });
}

void Agent::CloseSession() {
  if (session_ == nullptr) return;
  const SessionPtr session = std::exchange(session_, nullptr);
  session->agent_open = false;
  world_->network.Send(session, kUp, [this, session] { world_->ServerEndLost(session); });
}

void Agent::OnMessage(const SessionPtr& session, const Header& header,
                      const RendezvousMessage& message, int life) {
  Post([this, session, header, message, life] {
    if (session_ != session) return;
    world_->recorder.Event(kToAgent, session->id, message.index(),
                           static_cast<std::uint64_t>(header.generation.value));
    if (world_->recorder.tracing()) {
      world_->recorder.Line(
          absl::StrCat("  ", Name(), " <- s", session->id, " ", Text(header), " ", Text(message)));
    }
    backoff_ = 0;
    attempt_limit_ = std::min(kSecond, ThirdOfLease());
    Header seen = header;
    if (world_->bug == Bug::kNoAgentIdCheck) seen.agent_id = agent_id_;
    // A message without a term would be refused.
    if (world_->bug == Bug::kTermNotChecked && seen.term.revision < leader_.revision) {
      seen.term = leader_;
    }
    RendezvousMessage heard = message;
    if (auto* ack = std::get_if<HeartbeatAck>(&heard);
        ack != nullptr && world_->bug == Bug::kLeaseFromAckArrival) {
      ack->sent_at =
          std::chrono::duration_cast<std::chrono::nanoseconds>(Now().time_since_epoch()).count();
    }
    if (std::holds_alternative<Finished>(message)) verdict_life_ = life;
    if (std::holds_alternative<Assignment>(message) &&
        header.generation > supervisor_.header().generation) {
      offered_ = {header.generation, life};
    }
    if (world_->several) Step(Supervisor::Tick{});  // so that acted_ counts no timer's actions
    acted_ = false;
    Step(Supervisor::Received{seen, std::move(heard)});
    const bool same = header.term.cluster == obeyed_.cluster;
    if (acted_ && same && header.term.revision < obeyed_.revision) {
      world_->Violation(absl::StrCat(Name(), " has heard of term ", obeyed_.revision,
                                     ", and obeys term ", header.term.revision));
    }
    if (!same || obeyed_.revision < header.term.revision) obeyed_ = header.term;
    // The Supervisor takes an assignment at once, or when a later message confirms it.
    if (supervisor_.header().generation == offered_.generation) life_ = offered_.life;
  });
}

}  // namespace ddprun::sim
