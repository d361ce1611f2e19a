// JobSpec: the job-wide settings, on which all agents of a job must agree, with their defaults.
// Plain values.
//
// ForEachField() is the table of all fields. The comparison of two specs (admission.cc) and the
// wire and journal formats (rendezvous/wire/job_spec_proto.cc) iterate over it.
// docs/internals/contributing.md ("A job-wide setting") lists what a new setting needs.
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

// When the job counts as hanging (hang_watch.h), and what happens then.
struct HangSpec {
  Duration hang_timeout{};                                     // 0: auto
  Duration hang_startup_timeout = kDefaultHangStartupTimeout;  // until the first step
  enum OnHang { kChooseOnHang = 0, kRestartHang = 1, kReportHang = 2, kIgnoreHang = 3 };
  int on_hang = kChooseOnHang;
  // All nodes of a host are excluded after ranks on this host hung this often, if nodes of other
  // hosts wait to take their place; 0: never. Agents of older versions send 0, so 0 agrees with
  // every value.
  int hang_quarantine = kDefaultHangQuarantine;

  bool operator==(const HangSpec&) const = default;
};

// The members of the job, and its restarts.
struct GroupSpec {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  Duration join_timeout = kDefaultJoinTimeout;  // from the start of a gathering: wait for min_nodes
  Duration last_call = kDefaultLastCall;        // wait for more nodes, once min_nodes joined
  // The interval of an agent's heartbeats, and the silence after which its node is lost. The lease
  // is at least kHeartbeatsPerLease heartbeats: WhyMalformed() in admission.h.
  Duration heartbeat = kDefaultHeartbeat;
  Duration lease = kDefaultLease;
  Duration save_timeout = kDefaultSaveTimeout;  // limit of the checkpoint before a planned stop
  // max_restarts counts only the restarts within this time; nullopt: all restarts.
  std::optional<Duration> restart_window;
  std::vector<int> never_restart_on;  // exit codes of a worker that end the job at once
  // The number of generations that may end because a node was lost or left, within restart_window;
  // 0: no limit.
  int max_membership_changes = 0;
  // All nodes of a host are excluded after workers on this host were the root cause this often
  // within quarantine_window; 0: never.
  int quarantine = 0;
  Duration quarantine_window = kDefaultQuarantineWindow;
  // --start-anew: states from before the job are ignored. A job that has made no state begins at
  // step 0, even if the checkpoint folder has older files.
  bool start_anew = false;
  // The number of nodes that can ever join, from Slurm; 0: not known, and agrees with every value.
  int all_nodes = 0;
  // MASTER_ADDR and MASTER_PORT of every worker. Empty and 0: the address of node rank 0, and the
  // port that its agent offers.
  std::string master_addr{};
  int master_port = 0;
  // Who serves torch's store on MASTER_PORT: kAgentStore; or empty, as in older versions: rank
  // 0's worker. Never kWorkerStore, which is a value of the flag only.
  std::string store{};

  bool operator==(const GroupSpec&) const = default;
};

inline constexpr char kAgentStore[] = "agent";
inline constexpr char kWorkerStore[] = "worker";

// The job takes the settings of the first agent that joins. While the job has nodes, an agent with
// other settings is refused.
struct JobSpec : GroupSpec, HangSpec {
  bool operator==(const JobSpec&) const = default;
};

// The longest standstill that can pass before the job counts as hanging. Two exceptions: with auto,
// the limit that was learned for a phase may be shorter or longer; and excused time (a debugger, a
// suspended machine) does not count (hang_watch.h). 0: hangs are not detected.
inline Duration LongestHangLimit(const JobSpec& spec) {
  if (spec.on_hang == JobSpec::kIgnoreHang) return Duration{0};
  return std::max(spec.hang_timeout, spec.hang_startup_timeout);
}

// How a field of two agents is compared.
enum class Agreement {
  kEqual,
  // 0, which an agent of an older version sends, agrees with every value. If such an agent joins
  // first, the job's value stays 0.
  kEqualIfKnown,
};

struct JobSpecField {
  const char* wire;  // the name in the proto's JobSpec, which documents unit and bounds
  // For people: the flag, else the key. Fields with the same label are shown together.
  const char* label;
  // Bounds of a number, of each number in a list, of a duration in ms, or of a switch (0 and 1). A
  // text may have at most `max` bytes. An empty text on the wire leaves the default.
  std::int64_t min = 0;
  std::int64_t max = 0;
  const char* unset = nullptr;  // text for people if the value is 0, empty or missing
  Agreement agreement = Agreement::kEqual;
};

// Calls visit(pointer to member, JobSpecField) for each field, in the order of comparison. Members
// are bool, int, Duration, std::optional<Duration>, std::vector<int> and std::string.
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
  // All agents need the same lease: each agent fences its workers by its own value, and the
  // rendezvous uses one value for all nodes.
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
