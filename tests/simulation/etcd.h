// etcd as several rendezvous see it: a leader key and the state of the job, changed by guarded
// transactions that come late, twice or not at all, and whose answers are lost.
#ifndef DDPRUN_TESTS_SIMULATION_ETCD_H_
#define DDPRUN_TESTS_SIMULATION_ETCD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/core/term.h"
#include "rendezvous/leadership/leader_record.h"
#include "rendezvous/machine/job_record.h"
#include "tests/simulation/network.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

class Etcd {
 public:
  // What is stored of the job, and which write stored it.
  struct Stored {
    std::uint64_t write = 0;
    int life = 0;
    JobRecord record;
  };
  // One transaction: guards that are given must hold, else nothing is written. All keys are read.
  struct Request {
    std::optional<std::uint64_t> leader_guard;
    std::optional<std::uint64_t> state_guard;
    std::optional<LeaderRecord> leader;
    std::shared_ptr<const Stored> state;
  };
  struct Answer {
    bool guarded = false;
    std::uint64_t revision = 0;
    Term found;  // cluster, and the leader key's mod_revision
    std::optional<LeaderRecord> leader;
    std::uint64_t state_revision = 0;
    std::shared_ptr<const Stored> state;
  };
  using Done = std::function<void(const Answer* answer)>;

  explicit Etcd(World* world, int clients);

  // Of rendezvous `client`. `done` runs once: with the answer, or with nullptr where none came
  // within `limit`; the transaction may have had its effect then, or may have it yet.
  void Ask(int client, const Request& request, Time limit, const Done& done);
  // What a member that is cut off with this client has in its memory.
  const Answer& Stale(int client) const { return clients_[client].stale; }
  bool CutOff(int client) const;

  void Cut(int client, Direction direction);
  void Heal(int client, Direction direction);
  void SetQuorum(bool quorum);
  void HealAll();

  // As it is, whoever knows it.
  const Answer& now() const { return now_; }

 private:
  struct Client {
    std::array<bool, 2> cut{};
    std::array<std::vector<std::function<void()>>, 2> stuck;  // arrives when the cut is over
    Answer stale;
  };

  void Travel(int client, Direction direction, const std::function<void()>& arrived);
  void Arrive(int client, const Request& request, const std::function<void(Answer)>& reply);
  Answer Apply(const Request& request);
  Time Delay();

  World* const world_;  // outlives this
  bool quorum_ = true;
  std::vector<std::function<void()>> waiting_;  // for quorum
  Answer now_;
  std::vector<Client> clients_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_ETCD_H_
