// Contender: decides whether one of several rendezvous leads. It has the shipped Leadership, queues
// of calls to etcd, and a link to the leader's process, and it reports to agents that it leads. Its
// Daemon does everything else of the rendezvous.
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

  // The process begins, or executes itself again. `ousted`: Leadership::Options::ousted.
  void Begin(int ousted);
  void EndAsked() { Step(Leadership::EndAsked{}); }

  bool leads() const { return leads_; }  // it has the state, and serves
  // The term of its messages.
  const Term& term() const { return term_; }
  // Whether the leader key names this process. Compares ids and not terms: after this process has
  // written the key again, etcd has the new term before term() has it.
  bool HoldsKey() const;
  // Whether it may acknowledge, assign and answer.
  bool MaySpeak() const;
  bool HandsOver() const { return core_->hands_over(); }
  // Writes the state of the job, after all earlier writes. Calls `kept` when etcd has it.
  void Write(std::shared_ptr<const Etcd::Stored> state, std::function<void()> kept);

  // Report the term to all agents, or to one agent that asked. Do nothing unless this one leads
  // and may speak.
  void TellAgents();
  void TellAgent(int agent);

 private:
  using Task = std::function<void()>;
  struct StateWrite {
    std::shared_ptr<const Etcd::Stored> state;
    std::function<void()> kept;
  };

  void Step(const Leadership::Event& event);
  void Perform(const Leadership::Action& action);
  // `replaces`: the record that the write replaces, if there is one.
  void Put(const Leadership::PutLeader& put, const std::optional<LeaderRecord>& replaces);
  void Renew();
  void Read();
  void Load(const Leadership::Lead& lead);
  // ---- reads of the leader key, one after the other ----
  void Enqueue(Task task);
  void Next();  // each task ends with it
  // ---- writes ----
  void WriteNext();
  void OnWritten();
  void SeekPut(const Leadership::PutLeader& put);
  void TryToWrite();
  void ReadBack();
  void OnKept(std::uint64_t revision);
  void WriteLater(bool uncertain);
  // Drops the answer if this process has ended.
  void Ask(const Etcd::Request& request, const Etcd::Done& done);
  void AskPeer(int watch);
  void ScheduleTick();
  TimePoint Now() const;

  World* const world_;
  Daemon* const daemon_;
  const int number_;
  int process_ = 0;  // number of the running process; answers to an earlier one are dropped
  std::unique_ptr<Leadership> core_;
  std::deque<Task> reads_;  // the first one is under way
  std::deque<Task> puts_;   // of the leader key
  std::deque<StateWrite> writes_;
  bool writing_ = false;    // a write is under way
  bool pausing_ = false;    // the first of `writes_` waits before it is tried again
  bool uncertain_ = false;  // the first of `writes_` may have been kept
  bool reading_ = false;
  int watch_ = 0;  // number of the newest link
  int peer_ = -1;  // the other end of the link; −1: no link
  bool leads_ = false;
  bool told_ = false;  // agents were told that it leads
  Term term_;
  Term writer_;  // guards its writes: term_, or a newer one that the core does not know yet
  TimePoint valid_until_{};
  std::uint64_t state_revision_ = 0;  // the revision of the state that this one read or wrote last
  Time tick_at_ = -1;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_CONTENDER_H_
