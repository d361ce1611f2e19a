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
  kTimelineForgotten,    // an agent reports all its states as made by the newest generation
  kNobodyLooksAgain,     // the rendezvous treats every agent as one that cannot look again
  kStuckForgotten,       // an agent does not report the workers that SIGKILL did not end
  kLeftTooEarly,         // a worker that is asked to leave says at once that it has left
  kOldSurvivorJoins,     // a worker that stayed takes the rank that it had in its first generation
  kTwoSources,           // a worker that holds the planned step takes itself for the source
  kHalfStepAsSource,     // a worker within the optimizer's step makes a snapshot
  kSlotOfAnotherStep,    // a worker takes the generator of the step after the planned one
  kLeftBeforeItsSnapshot,  // a worker reports that it has left, and only then its snapshot
  // With several rendezvous:
  kAckAfterValidity,    // a leader speaks without confirmation by etcd
  kNoHold,              // a new leader waits for leases, but not for its predecessor
  kTermNotChecked,      // an agent obeys a leader of any term
  kUnguardedWrite,      // the state is written without any guard
  kTwoLeadersFromOne,   // a takeover is written without the guard
  kStaleRenewal,        // a renewal is answered by a member that is cut off from etcd
  kDelayedDuplicate,    // the state is written with the guard of the leader key only
  kVmaxForgotten,       // a leader publishes only its own validity
  kNoHoldAfterRestore,  // a leader believes that a restored etcd has all data
};
// kSeveralUnlike: several. Some processes may lead without etcd for 12 s, the others for 1 s.
enum class Rendezvous { kAlone, kSeveral, kSeveralUnlike };
// The flag of `simulate` for it, with a space before it; "" for kAlone.
const char* FlagOf(Rendezvous rendezvous);
// Whether a bug needs several rendezvous or a single one.
Rendezvous RendezvousOf(Bug bug);
// nullopt: no such bug.
std::optional<Bug> BugNamed(const std::string& name);

struct Result {
  std::uint64_t seed = 0;
  std::string violation;  // empty: everything held
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  // Statistics of the run, with which a campaign shows that something happened.
  std::optional<Outcome> outcome;  // of the job; nullopt: it has not ended
  int generations = 0;             // started generations
  int faults = 0;
  int fences = 0;           // agents that ended their workers because they were cut off
  int daemon_restarts = 0;  // kills of a rendezvous, and its ends and restarts by itself
  int sessions = 0;
  int restores = 0;            // generations that began with a state
  int restores_elsewhere = 0;  // of these: how many took it from a node other than the first
  int dead_states = 0;         // states on a dead timeline (docs/recovery.md) that members held
  int failed_checkpoints = 0;  // counted by jobs that finished
  int stuck = 0;               // workers that SIGKILL did not end for a while
  int left_out = 0;            // nodes that were left out until such workers were gone
  int stayed = 0;              // workers that left a generation
  int handed_over = 0;         // of these: how many began another generation
  int end_snapshots = 0;       // snapshots that they made while they left
  int live_restores = 0;       // ranks that began with such a snapshot
  int takeovers = 0;           // by one of several rendezvous
};

// `trace`: gets a line for each event; nullptr: no trace.
Result Simulate(std::uint64_t seed, Bug bug = Bug::kNone, std::string* trace = nullptr,
                Rendezvous rendezvous = Rendezvous::kAlone);

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_SIMULATION_H_
