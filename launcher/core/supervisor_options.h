// What a Supervisor is made with, and what it ends with. Plain values.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_OPTIONS_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_OPTIONS_H_

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/limits.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// How the job ended, as seen by this agent: what --report holds and what the exit code says.
struct Verdict {
  Outcome outcome = Outcome::kFailed;
  int exit_code = 0;
  std::string reason;
  int restarts_used = 0;
  std::optional<RootCause> root_cause;
  std::vector<RootCause> earlier;          // of the generations before, oldest first
  FailedCheckpoints failed_checkpoints{};  // of the job; of this node, where no more is known
  std::vector<std::string> excluded{};     // hosts whose workers failed again and again
  bool decided_by_agent = false;           // not by the rendezvous
  // The agent adds these. On this node, oldest first:
  std::vector<RestartTimes> restart_times{};
  std::optional<RestorePlan> restore{};  // of the last generation that it started
  std::optional<HangStacks> hang{};      // of the last hang that was called
  std::string error_file{};  // what the root cause left there; "": nothing, or it ran elsewhere

  // An end that this agent decided, without the rendezvous.
  static Verdict OfAgent(Outcome outcome, int exit_code, std::string reason) {
    Verdict verdict;
    verdict.outcome = outcome;
    verdict.exit_code = exit_code;
    verdict.reason = std::move(reason);
    verdict.decided_by_agent = true;
    return verdict;
  }

  bool operator==(const Verdict&) const = default;
};

struct SupervisorOptions {
  std::string job;
  std::uint32_t requeue_number = 0;
  AgentId agent_id;
  JobSpec spec;
  NodeSpec node;
  WorkerProgram program{};       // that the workers run, as the rendezvous is told
  std::string why_ineligible{};  // why this node must stay out, as the rendezvous is told; empty:
                                 // it may run
  Duration stop_grace = kDefaultStopGrace;  // from the first signal to SIGKILL
  // For a worker that stays to leave its generation, before it is ended like the others. 0: none is
  // asked to.
  Duration in_place_timeout = kDefaultInPlaceTimeout;
  // To a worker that hangs, and how long it then has until SIGKILL; at most stop_grace.
  int hang_signal = SIGABRT;
  Duration hang_grace = std::chrono::seconds(2);
  // After SIGKILL: a worker that is still there (in an uninterruptible wait) is named and left.
  Duration kill_grace = std::chrono::seconds(2);
  // A second SIGINT or SIGQUIT ends the grace, unless it comes with the first: some senders signal
  // the process and its group.
  Duration repeat_guard = std::chrono::milliseconds(300);
  // False: the rendezvous is in this process. There is no lease, and a session that is lost is the
  // end. Heartbeats are sent only while there is something to tell.
  bool leases = true;
  // More than one endpoint is configured: a connection that is refused at one of them does not show
  // that no rendezvous lives. Else the first term that is heard says so.
  bool several = false;
  // The workers tell their steps, as if each had said so when it was started.
  bool tells_steps = false;
  std::string rendezvous = "the rendezvous";  // for people: with its endpoint
  std::string unreachable_hint{};             // for people, where it was never reached; "": none
  Duration connect_timeout = kDefaultConnectTimeout;  // for the first word of the rendezvous
  Duration daemon_grace = kDefaultDaemonGrace;  // without a session, before the agent gives up
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_OPTIONS_H_
