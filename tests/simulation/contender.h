// One of several rendezvous, beside its Daemon: the shipped Leadership, the queue of its calls of
// etcd, its link to the leader's process, and what it tells agents of who leads.
#ifndef DDPRUN_TESTS_SIMULATION_CONTENDER_H_
#define DDPRUN_TESTS_SIMULATION_CONTENDER_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/leadership/leadership.h"
#include "tests/simulation/etcd.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

class Daemon;

class Contender {
 public:
  // Both outlive this.
  Contender(World* world, Daemon* daemon, int number);

  // The process begins, or executes itself again.
  void Begin(int ousted);
  void EndAsked() { Step(Leadership::EndAsked{}); }

  bool leads() const { return leads_; }  // it has the state, and serves
  // Under which it speaks.
  const Term& term() const { return term_; }
  // It may acknowledge, assign and answer.
  bool MaySpeak() const;
  bool HandsOver() const { return core_->hands_over(); }
  // Writes the state of the job; the writes of one reign one after the other.
  void Write(std::shared_ptr<const Etcd::Stored> state, std::function<void()> kept);

  // Its process has an agent's question who leads, or the push at a change.
  void TellAgents();
  void TellAgent(int agent);

 private:
  using Task = std::function<void()>;  // ends with Next()

  void Step(const Leadership::Event& event);
  void Perform(const Leadership::Action& action);
  void Put(const Leadership::PutLeader& put);
  void Renew();
  void Read();
  void Load(const Leadership::Lead& lead);
  void TryToWrite(const std::shared_ptr<const Etcd::Stored>& state,
                  const std::function<void()>& kept);
  void ReadBack(const std::shared_ptr<const Etcd::Stored>& state,
                const std::function<void()>& kept);
  void Enqueue(Task task);
  void Next();
  // The answer comes to this process, unless it has ended.
  void Ask(const Etcd::Request& request, const Etcd::Done& done);
  void AskPeer(int watch);
  void ScheduleTick();
  TimePoint Now() const;

  World* const world_;
  Daemon* const daemon_;
  const int number_;
  int process_ = 0;  // that was begun; of an earlier one nothing comes any more
  std::unique_ptr<Leadership> core_;
  std::deque<Task> queue_;  // the first is under way
  bool reading_ = false;
  int watch_ = 0;  // the link that is kept
  int peer_ = -1;  // to whom; −1: to nobody
  bool leads_ = false;
  bool told_ = false;  // agents know
  Term term_;
  TimePoint valid_until_{};
  std::uint64_t state_revision_ = 0;  // of the state, as this one knows it
  Time tick_at_ = -1;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_CONTENDER_H_
