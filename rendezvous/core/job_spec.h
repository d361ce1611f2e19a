// JobSpec: the settings that all agents of a job must agree on, with their defaults, and the one
// description of its fields. Comparison (admission.cc), wire and journal
// (rendezvous/wire/job_spec_proto.cc) walk over the description, so that a new setting is a member,
// a row, and a field in proto/ddprun/v1/rendezvous.proto. The keys of job files set the members
// (JobConfig::spec). Pure.
#ifndef DDPRUN_RENDEZVOUS_CORE_JOB_SPEC_H_
#define DDPRUN_RENDEZVOUS_CORE_JOB_SPEC_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/limits.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// What counts as a hang of the job, and what is done then: hang_watch.h.
struct HangSpec {
  Duration hang_timeout{};                                     // 0: chosen by what was seen (auto)
  Duration hang_startup_timeout = kDefaultHangStartupTimeout;  // until the first step
  enum OnHang { kChooseOnHang = 0, kRestartHang = 1, kReportHang = 2, kIgnoreHang = 3 };
  int on_hang = kChooseOnHang;
  // A node of so many ranks that hung is left out where another one waits to take its place; 0:
  // never. Agents of older versions say 0, so 0 agrees with all.
  int hang_quarantine = kDefaultHangQuarantine;

  bool operator==(const HangSpec&) const = default;
};

// Who is in the job, and when it starts again.
struct GroupSpec {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  Duration join_timeout = kDefaultJoinTimeout;  // from the first join until min_nodes are there
  Duration last_call = kDefaultLastCall;  // from min_nodes joined until fewer than max_nodes form
  // How often an agent says that it lives, and how long after the last time its node is lost. The
  // lease is at least three heartbeats: see WhyMalformed.
  Duration heartbeat = kDefaultHeartbeat;
  Duration lease = kDefaultLease;
  Duration save_timeout = kDefaultSaveTimeout;  // for the checkpoint before a planned stop
  std::optional<Duration> restart_window;  // max_restarts counts those this recent; nullopt: all
  std::vector<int> never_restart_on;       // exit codes of a worker that end the job at once
  // Generations that a node's loss or leave may end, within restart_window; 0: any number.
  int max_membership_changes = 0;
  // A node whose workers were the root cause so many times within the window is left out; 0: none.
  int quarantine = 0;
  Duration quarantine_window = kDefaultQuarantineWindow;
  // What was there before the job is no state of it; without a state the training begins at step 0,
  // whatever rank 0 may find.
  bool start_anew = false;
  // Nodes that can ever join, as Slurm says; 0: not known. Who does not know it agrees with all.
  int all_nodes = 0;
  // What every worker is told as MASTER_ADDR and MASTER_PORT. Empty, 0: node rank 0's address, the
  // port that its agent offers.
  std::string master_addr{};
  int master_port = 0;
  // Who serves torch's store on MASTER_PORT: kAgentStore, or empty for rank 0's worker, as agents
  // of older versions say.
  std::string store{};

  bool operator==(const GroupSpec&) const = default;
};

inline constexpr char kAgentStore[] = "agent";
inline constexpr char kWorkerStore[] = "worker";

// The first agent to join decides; another is refused if its own differ.
struct JobSpec : GroupSpec, HangSpec {
  bool operator==(const JobSpec&) const = default;
};

// The longest that such a job may go without a move before it hangs, unless one of its phases was
// seen to take longer. 0: nothing is judged.
inline Duration LongestHangLimit(const JobSpec& spec) {
  if (spec.on_hang == JobSpec::kIgnoreHang) return Duration{0};
  return std::max(spec.hang_timeout, spec.hang_startup_timeout);
}

// How a field is compared where two agents differ in it.
enum class Agreement {
  kEqual,
  kEqualIfKnown,  // 0 agrees with everything
};

struct JobSpecField {
  const char* wire;   // its name in proto's JobSpec; the proto says its unit and bounds, too
  const char* label;  // what people call it: the flag, else the key. Neighbours with the same label
                      // are shown together
  // Of a number, each number of a list, or the milliseconds of a duration; 0 and 1 of a switch. A
  // text has at most `max` bytes; one that is empty on the wire leaves the default.
  std::int64_t min = 0;
  std::int64_t max = 0;
  const char* unset = nullptr;  // what people read instead of a value that is 0, empty or not there
  Agreement agreement = Agreement::kEqual;
};

// Calls visit(pointer to member, JobSpecField) for each field, in the order in which two jobs are
// compared. Members are bool, int, Duration, std::optional<Duration>, std::vector<int> and
// std::string.
template <class Visitor>
void ForEachField(Visitor&& visit) {
  using Spec = JobSpec;
  constexpr std::int64_t kTimeout = kMaxTimeout.count();
  const char* const master = "--master-addr and --master-port";
  visit(&Spec::min_nodes, JobSpecField{"min_nodes", "--nnodes", 1, kMaxNodes});
  visit(&Spec::max_nodes, JobSpecField{"max_nodes", "--nnodes", 1, kMaxNodes});
  visit(&Spec::max_restarts, JobSpecField{"max_restarts", "--max-restarts", 0, kMaxRestarts});
  visit(&Spec::join_timeout, JobSpecField{"join_timeout_ms", "join_timeout", 0, kTimeout});
  visit(&Spec::last_call, JobSpecField{"last_call_ms", "last_call", 0, kTimeout});
  // One lease for all: each agent fences itself by its own, and the rendezvous counts by one.
  visit(&Spec::lease, JobSpecField{"lease_ms", "lease", kMinLease.count(), kMaxLease.count()});
  visit(&Spec::heartbeat,
        JobSpecField{"heartbeat_ms", "heartbeat", kMinHeartbeat.count(), kMaxHeartbeat.count()});
  visit(&Spec::save_timeout, JobSpecField{"save_timeout_ms", "--save-timeout", 0, kTimeout});
  visit(&Spec::restart_window,
        JobSpecField{"restart_window_ms", "--restart-window", 0, kTimeout, "not set"});
  visit(&Spec::never_restart_on,
        JobSpecField{"never_restart_on", "restart.never_on", 0, kMaxExitCode});
  visit(&Spec::max_membership_changes,
        JobSpecField{"max_membership_changes", "restart.max_membership_changes", 0, kMaxRestarts,
                     "not limited"});
  visit(&Spec::quarantine, JobSpecField{"quarantine", "restart.quarantine", 0, kMaxRestarts});
  visit(&Spec::quarantine_window,
        JobSpecField{"quarantine_window_ms", "restart.quarantine_window", 0, kTimeout});
  visit(&Spec::hang_timeout,
        JobSpecField{"hang_timeout_ms", "--hang-timeout", 0, kTimeout, "auto"});
  visit(&Spec::hang_startup_timeout,
        JobSpecField{"hang_startup_timeout_ms", "--hang-startup-timeout", 0, kTimeout, "not known",
                     Agreement::kEqualIfKnown});
  visit(&Spec::on_hang,
        JobSpecField{"on_hang", "--on-hang, or --hang-timeout off,", 0, 3, "not given"});
  visit(&Spec::hang_quarantine, JobSpecField{"hang_quarantine", "--hang-quarantine", 0,
                                             kMaxRestarts, "not given", Agreement::kEqualIfKnown});
  visit(&Spec::start_anew, JobSpecField{"start_anew", "--start-anew", 0, 1, "not given"});
  visit(&Spec::all_nodes, JobSpecField{"all_nodes", "the number of nodes of the Slurm step", 0,
                                       kMaxNodes, nullptr, Agreement::kEqualIfKnown});
  visit(&Spec::master_addr, JobSpecField{"master_addr", master, 0, kMaxHostBytes, "(chosen)"});
  visit(&Spec::master_port, JobSpecField{"master_port", master, 0, kMaxPort, "(chosen)"});
  visit(&Spec::store, JobSpecField{"store", "--store", 0, 6, kWorkerStore});
}

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_JOB_SPEC_H_
