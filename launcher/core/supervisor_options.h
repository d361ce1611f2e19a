// SupervisorOptions: the input of a Supervisor. Verdict: its result. Plain values.
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

// How the job ended, as seen by this agent: the source of --report and of the exit code.
struct Verdict {
  Outcome outcome = Outcome::kFailed;
  int exit_code = 0;
  std::string reason;
  int restarts_used = 0;
  std::optional<RootCause> root_cause;
  std::vector<RootCause> earlier;          // of earlier generations, oldest first
  FailedCheckpoints failed_checkpoints{};  // of the job, if known; else of this node
  std::vector<std::string> excluded{};     // hosts left out of the job
  bool decided_by_agent = false;           // not by the rendezvous
  // The agent adds these. On this node, oldest first:
  std::vector<RestartTimes> restart_times{};
  std::optional<RestorePlan> restore{};  // of the last generation that this node started
  std::optional<HangStacks> hang{};      // of the last reported hang
  // Content of the root cause's error file; "": none, or it ran on another node.
  std::string error_file{};

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
  WorkerProgram program{};                  // the workers' program, for the rendezvous
  std::string why_ineligible{};             // why this node must stay out; empty: it may join
  Duration stop_grace = kDefaultStopGrace;  // from the first signal to SIGKILL
  // The time in which a worker that stays in its process must leave its generation. After this time
  // it is ended like the other workers. 0: no worker is asked to leave.
  Duration in_place_timeout = kDefaultInPlaceTimeout;
  // The signal to a worker that hangs, and the time from it to SIGKILL, at most stop_grace.
  int hang_signal = SIGABRT;
  Duration hang_grace = std::chrono::seconds(2);
  // The time after SIGKILL. A worker that still exists then is reported and left behind. Mostly it
  // is in an uninterruptible wait.
  Duration kill_grace = std::chrono::seconds(2);
  // While the agent leaves, SIGINT or SIGQUIT ends the grace. Within this time of the first signal
  // it is ignored, because some senders signal both the process and its group.
  Duration repeat_guard = std::chrono::milliseconds(300);
  // False: the rendezvous is in this process. Then there is no lease, a lost session ends this
  // node's part of the job, and heartbeats are sent only while there is something to report.
  bool leases = true;
  // True: several endpoints, or etcd, are configured. Then a rendezvous may be alive although one
  // endpoint refuses the connection. A received term (ha.md: the number of a leader) has the same
  // effect, even if this is false.
  bool several = false;
  // True: the workers will report their steps, as if each had sent TELLS=1 at its start.
  bool tells_steps = false;
  std::string rendezvous = "the rendezvous";  // for people, with its endpoint
  std::string unreachable_hint{};  // for people, if the rendezvous was never reached; "": none
  Duration connect_timeout = kDefaultConnectTimeout;  // until the first message of the rendezvous
  // How long an agent without a session waits before it gives up, once a rendezvous has sent it a
  // message.
  Duration daemon_grace = kDefaultDaemonGrace;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_OPTIONS_H_
