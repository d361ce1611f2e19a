// The options of a Supervisor and its final verdict. Plain values.
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

// How the job ended, as seen by this agent: the content of --report and the exit code.
struct Verdict {
  Outcome outcome = Outcome::kFailed;
  int exit_code = 0;
  std::string reason;
  int restarts_used = 0;
  std::optional<RootCause> root_cause;
  std::vector<RootCause> earlier;          // of earlier generations, oldest first
  FailedCheckpoints failed_checkpoints{};  // of the job; only of this node if the job's are unknown
  std::vector<std::string> excluded{};     // hosts whose workers failed too often
  bool decided_by_agent = false;           // false: by the rendezvous
  // The agent adds these. restart_times: on this node, oldest first.
  std::vector<RestartTimes> restart_times{};
  std::optional<RestorePlan> restore{};  // of the last generation that this node started
  std::optional<HangStacks> hang{};      // of the last hang verdict
  std::string error_file{};              // of the root cause; "": none, or it ran on another node

  // An end that this agent decided without the rendezvous.
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
  WorkerProgram program{};       // of the workers, as told to the rendezvous
  std::string why_ineligible{};  // why this node must stay out, as the rendezvous is told; empty:
                                 // it may run
  Duration stop_grace = kDefaultStopGrace;  // from the first signal to SIGKILL
  // The time for a worker that stays to leave its generation; then it is ended like the others. 0:
  // no worker is asked to leave.
  Duration in_place_timeout = kDefaultInPlaceTimeout;
  // The signal to a worker that hangs, and its time until SIGKILL; at most stop_grace.
  int hang_signal = SIGABRT;
  Duration hang_grace = std::chrono::seconds(2);
  // The time after SIGKILL. A worker that remains (in an uninterruptible wait) is named and left.
  Duration kill_grace = std::chrono::seconds(2);
  // A second SIGINT or SIGQUIT after this time ends the grace. An earlier one counts as the first:
  // some senders signal the process and its group.
  Duration repeat_guard = std::chrono::milliseconds(300);
  // False: the rendezvous is in this process. Then there is no lease, a lost session is the end,
  // and heartbeats are sent only if there is something to tell.
  bool leases = true;
  // The workers tell their steps, as if each had said so at its start.
  bool tells_steps = false;
  std::string rendezvous = "the rendezvous";  // for people, with its endpoint
  std::string unreachable_hint{};             // for people, if it was never reached; "": none
  Duration connect_timeout = kDefaultConnectTimeout;  // until the first message of the rendezvous
  Duration daemon_grace = kDefaultDaemonGrace;  // without a session, before the agent gives up
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_OPTIONS_H_
