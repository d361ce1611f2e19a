// One run of a simulated job: the shipped JobMachine and the shipped Supervisors, with everything
// around them simulated: network, disk, clocks, workers, kills, partitions, operators. All of it
// follows from the seed. docs/internals/simulation.md says what is modelled and what must always
// hold.
#ifndef DDPRUN_TESTS_SIMULATION_SIMULATION_H_
#define DDPRUN_TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/core/outcome.h"

namespace ddprun::sim {

// Mistakes that a campaign must find. They are made around the cores, not in them.
enum class Bug {
  kNone,
  kNoAgentIdCheck,       // the rendezvous takes a restarted agent for the one before
  kLeaseFromAckArrival,  // the agent counts its lease from when an acknowledgement arrived
  kRanksBeforeLease,     // the rendezvous gives ranks away after half of the lease
  kTimelineForgotten,    // an agent says that the newest generation made what it holds
  kNobodyLooksAgain,     // the rendezvous takes every agent for one that cannot
  kStuckForgotten,       // an agent does not tell which workers SIGKILL did not end
  kLeftTooEarly,         // a worker says that it has left its generation when it is asked to
  kOldSurvivorJoins,     // a worker that stayed takes the rank that it had in the generation before
  kTwoSources,           // a worker that holds the planned step itself takes it for the source
  kHalfStepAsSource,     // a worker within the optimizer's step makes a snapshot
  kSlotOfAnotherStep,    // a worker takes the generator of the newest step, not of the planned one
  kLeftBeforeItsSnapshot,  // a worker says that it has left, and then what it holds
  // With several rendezvous:
  kAckAfterValidity,   // a leader speaks whether etcd has confirmed it or not
  kNoHold,             // a new leader waits for leases, but not for the one before it
  kTermNotChecked,     // an agent obeys any leader
  kUnguardedWrite,     // the state is written whoever leads, and whatever was written since
  kTwoLeadersFromOne,  // a takeover does not ask whether another one was first
  kStaleRenewal,       // a renewal is answered from the memory of one member of etcd
  kDelayedDuplicate,   // the state is written by whoever leads, whatever was written since
  kVmaxForgotten,      // a leader tells its own validity alone
};
enum class Rendezvous { kAlone, kSeveral };
// Whether a bug is of several rendezvous, or of one alone.
Rendezvous RendezvousOf(Bug bug);
// nullopt: no such bug.
std::optional<Bug> BugNamed(const std::string& name);

struct Result {
  std::uint64_t seed = 0;
  std::string violation;  // empty: everything held
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  // What the run was like, so that a campaign can show that it was not empty.
  std::optional<Outcome> outcome;  // of the job; nullopt: it has not ended
  int generations = 0;             // that were started
  int faults = 0;
  int fences = 0;  // agents that ended their workers because they were cut off
  int daemon_restarts = 0;
  int sessions = 0;
  int restores = 0;            // generations that began with a state
  int restores_elsewhere = 0;  // of them from another node than the first
  int dead_states = 0;         // that a member held when a generation was formed
  int failed_checkpoints = 0;  // that a job which was finished had counted
  int stuck = 0;               // workers that SIGKILL did not end for a while
  int left_out = 0;            // nodes, until these were gone
  int stayed = 0;              // workers that left a generation
  int handed_over = 0;         // of them that began another one
  int end_snapshots = 0;       // that they made while they left
  int live_restores = 0;       // ranks that began with such a one
  int takeovers = 0;           // by one of several rendezvous
};

// `trace`: where a line for each event goes, or nullptr.
Result Simulate(std::uint64_t seed, Bug bug = Bug::kNone, std::string* trace = nullptr,
                Rendezvous rendezvous = Rendezvous::kAlone);

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_SIMULATION_H_
