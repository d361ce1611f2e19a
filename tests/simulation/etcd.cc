#include "tests/simulation/etcd.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {
namespace {

constexpr std::uint64_t kCluster = 7;

}  // namespace

Etcd::Etcd(World* world, int clients) : world_(world), clients_(clients) {
  now_.found.cluster = kCluster;
  now_.revision = 1;
}

Time Etcd::Delay() {
  Random& random = world_->several_random;
  if (world_->healed || world_->plan.benign || random.Percent(90)) {
    return random.Between(500, 10'000) * kMillisecond / 1000;
  }
  return random.Wide(10, 800) * kMillisecond;
}

bool Etcd::CutOff(int client) const {
  return !quorum_ || clients_[client].cut[kUp] || clients_[client].cut[kDown];
}

void Etcd::Ask(int client, const Request& request, Time limit, const Done& done) {
  auto answered = std::make_shared<bool>(false);
  world_->scheduler.After(limit, [answered, done] {
    if (!std::exchange(*answered, true)) done(nullptr);
  });
  const auto reply = [this, client, answered, done](std::optional<Answer> answer) {
    Travel(client, kDown, [answered, done, answer = std::move(answer)] {
      if (!std::exchange(*answered, true)) done(answer ? &*answer : nullptr);
    });
  };
  const auto arrive = [this, client, request, reply] { Arrive(client, request, reply); };
  Travel(client, kUp, arrive);
  // A duplicate from the network: it arrives late, and its answer is dropped.
  const bool writes = request.leader || request.state != nullptr;
  if (writes && !world_->plan.benign && !world_->healed && world_->several_random.Percent(4)) {
    world_->scheduler.After(world_->several_random.Wide(1, 3000) * kMillisecond,
                            [this, request] { Apply(request); });
  }
}

void Etcd::Travel(int client, Direction direction, const std::function<void()>& arrived) {
  Random& random = world_->several_random;
  if (!world_->healed && !world_->plan.benign && random.Percent(1)) return;  // lost
  world_->scheduler.After(Delay(), [this, client, direction, arrived] {
    Client& of = clients_[client];
    if (!of.cut[direction]) return arrived();
    if (world_->several_random.Percent(50)) of.stuck[direction].push_back(arrived);
  });
}

void Etcd::Arrive(int client, const Request& request, const Reply& reply) {
  const bool writes = request.leader || request.state != nullptr;
  if (full_ && writes) return reply(std::nullopt);
  if (quorum_) return reply(Apply(request));
  // No answer. A member may keep the request until etcd has a leader again.
  if (world_->several_random.Percent(50)) {
    waiting_.push_back([this, client, request, reply] { Arrive(client, request, reply); });
  }
}

Etcd::Answer Etcd::Apply(const Request& request) {
  const bool guarded =
      (!request.leader_guard || *request.leader_guard == now_.found.revision) &&
      (!request.leader_id_guard || (now_.leader && now_.leader->id == *request.leader_id_guard)) &&
      (!request.state_guard || *request.state_guard == now_.state_revision);
  if (guarded && (request.leader || request.state != nullptr)) {
    ++now_.revision;
    if (request.leader) {
      now_.leader = request.leader;
      now_.found.revision = now_.revision;
      world_->recorder.Event(kLeaderWritten, now_.revision);
      world_->recorder.Line(absl::StrCat("etcd: revision ", now_.revision, ": the leader is ",
                                         now_.leader->endpoint,
                                         now_.leader->resigned ? ", which resigned" : ""));
    }
    if (request.state != nullptr) {
      now_.state = request.state;
      now_.state_revision = now_.revision;
      world_->recorder.Event(kDurable,
                             static_cast<std::uint64_t>(now_.state->record.generation.value));
      world_->recorder.Line(absl::StrCat("etcd: revision ", now_.revision, ": generation ",
                                         now_.state->record.generation.value));
    }
  }
  Answer answer = now_;
  answer.guarded = guarded;
  return answer;
}

void Etcd::Cut(int client, Direction direction) {
  if (!CutOff(client)) clients_[client].stale = now_;
  clients_[client].cut[direction] = true;
}

void Etcd::Heal(int client, Direction direction) {
  clients_[client].cut[direction] = false;
  const Time again = world_->several_random.Wide(1, 400) * kMillisecond;
  for (auto& arrived : std::exchange(clients_[client].stuck[direction], {})) {
    world_->scheduler.After(again, arrived);
  }
}

void Etcd::SetQuorum(bool quorum) {
  if (!quorum && quorum_) {
    for (int client = 0; client < static_cast<int>(clients_.size()); ++client) {
      if (!CutOff(client)) clients_[client].stale = now_;
    }
  }
  quorum_ = quorum;
  if (!quorum_) return;
  for (auto& arrived : std::exchange(waiting_, {})) {
    world_->scheduler.After(world_->several_random.Wide(1, 400) * kMillisecond, arrived);
  }
}

void Etcd::Restore(bool emptied) {
  restored_ = true;
  const std::uint64_t cluster = now_.found.cluster + 1;
  const std::uint64_t before = now_.revision;
  now_ = emptied ? Answer() : snapshot_;
  now_.found.cluster = cluster;
  // Other programs write to etcd, too. So the new cluster may reach the same revisions as the old
  // one.
  if (emptied) now_.revision = before - std::min<std::uint64_t>(before, 3);
  if (now_.state != nullptr) {
    // The restored etcd lacks all that happened since the snapshot: it counts as another job.
    Stored state = *now_.state;
    state.life = ++world_->lives;
    world_->checker.OnReturner(state.life);
    now_.state = std::make_shared<const Stored>(std::move(state));
  }
  for (Client& client : clients_) client.stale = now_;
  world_->recorder.Line(
      absl::StrCat("fault: etcd is ", emptied ? "emptied" : "restored", ": cluster ", cluster));
}

void Etcd::HealAll() {
  full_ = false;
  SetQuorum(true);
  for (int client = 0; client < static_cast<int>(clients_.size()); ++client) {
    Heal(client, kUp);
    Heal(client, kDown);
  }
}

}  // namespace ddprun::sim
