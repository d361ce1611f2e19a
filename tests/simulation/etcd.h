// etcd as several rendezvous see it: a leader key and the state of the job. Guarded transactions
// change them. A transaction may arrive late, twice or never, and its answer may be lost.
#ifndef DDPRUN_TESTS_SIMULATION_ETCD_H_
#define DDPRUN_TESTS_SIMULATION_ETCD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/term.h"
#include "rendezvous/leadership/leader_record.h"
#include "rendezvous/machine/job_record.h"
#include "tests/simulation/network.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

class Etcd {
 public:
  // The stored state of the job, and the number of the write that stored it.
  struct Stored {
    std::uint64_t write = 0;
    int life = 0;
    JobRecord record;
  };
  // One transaction: if a given guard does not hold, nothing is written. All keys are read.
  struct Request {
    std::optional<std::uint64_t> leader_guard;
    std::optional<std::string> leader_id_guard;  // the id in the leader key's value
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

  // A request of rendezvous `client`. `done` runs once: with the answer, or with nullptr if a full
  // etcd refuses a write, or if no answer arrived within `limit`. After the limit the transaction
  // may have taken effect, or may still do so.
  void Ask(int client, const Request& request, Time limit, const Done& done);
  // The data of a member that is cut off together with this client.
  const Answer& Stale(int client) const { return clients_[client].stale; }
  bool CutOff(int client) const;

  void Cut(int client, Direction direction);
  void Heal(int client, Direction direction);
  void SetQuorum(bool quorum);
  // Full: it refuses writes, and answers reads.
  void SetFull(bool full) { full_ = full; }
  void HealAll();

  // Its data as they are now, for Restore.
  void TakeSnapshot() { snapshot_ = now_; }
  // From now on etcd is another cluster: with the data of the snapshot, or emptied. Messages that
  // are under way still arrive.
  void Restore(bool emptied);
  bool IsRestored() const { return restored_; }

  // The true contents.
  const Answer& now() const { return now_; }

 private:
  struct Client {
    std::array<bool, 2> cut{};
    std::array<std::vector<std::function<void()>>, 2> stuck;  // messages that arrive after the heal
    Answer stale;
  };

  void Travel(int client, Direction direction, const std::function<void()>& arrived);
  using Reply = std::function<void(std::optional<Answer>)>;  // nullopt: an error
  void Arrive(int client, const Request& request, const Reply& reply);
  Answer Apply(const Request& request);
  Time Delay();

  World* const world_;  // outlives this
  bool quorum_ = true;
  bool full_ = false;
  bool restored_ = false;
  std::vector<std::function<void()>> waiting_;  // requests that wait for a quorum
  Answer now_;
  Answer snapshot_;
  std::vector<Client> clients_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_ETCD_H_
