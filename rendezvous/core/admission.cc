#include "rendezvous/core/admission.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/words.h"

namespace ddprun {

std::string WhyMalformed(const Join& join) {
  if (join.node.worker_count < 1 || join.job.min_nodes < 1 ||
      join.job.max_nodes < join.job.min_nodes) {
    return "a node needs at least one worker, and a job 1 ≤ MIN ≤ MAX nodes";
  }
  if (join.job.lease < 3 * join.job.heartbeat) {
    return absl::StrCat("a lease of ", Seconds(join.job.lease),
                        " is less than three heartbeats of ", Seconds(join.job.heartbeat));
  }
  return "";
}

std::string WhyJobDiffers(const JobSpec& ours, const JobSpec& theirs) {
  const auto differ = [](const char* what, auto ours, auto theirs) {
    return absl::StrCat(what, " is ", theirs, " here, but the job began with ", ours,
                        ": start every node with the same command");
  };
  if (theirs.min_nodes != ours.min_nodes || theirs.max_nodes != ours.max_nodes) {
    return differ("--nnodes", absl::StrCat(ours.min_nodes, ":", ours.max_nodes),
                  absl::StrCat(theirs.min_nodes, ":", theirs.max_nodes));
  }
  if (theirs.max_restarts != ours.max_restarts) {
    return differ("--max-restarts", ours.max_restarts, theirs.max_restarts);
  }
  if (theirs.join_timeout != ours.join_timeout) {
    return differ("join_timeout", Seconds(ours.join_timeout), Seconds(theirs.join_timeout));
  }
  if (theirs.last_call != ours.last_call) {
    return differ("last_call", Seconds(ours.last_call), Seconds(theirs.last_call));
  }
  // One lease for all: each agent fences itself by its own, and the rendezvous counts by one.
  if (theirs.lease != ours.lease)
    return differ("lease", Seconds(ours.lease), Seconds(theirs.lease));
  if (theirs.heartbeat != ours.heartbeat) {
    return differ("heartbeat", Seconds(ours.heartbeat), Seconds(theirs.heartbeat));
  }
  if (theirs.save_timeout != ours.save_timeout) {
    return differ("--save-timeout", Seconds(ours.save_timeout), Seconds(theirs.save_timeout));
  }
  if (theirs.restart_window != ours.restart_window) {
    const auto text = [](const JobSpec& spec) {
      return spec.restart_window ? Seconds(*spec.restart_window) : std::string("not set");
    };
    return differ("--restart-window", text(ours), text(theirs));
  }
  if (theirs.never_restart_on != ours.never_restart_on) {
    return differ("restart.never_on", absl::StrJoin(ours.never_restart_on, ","),
                  absl::StrJoin(theirs.never_restart_on, ","));
  }
  if (theirs.quarantine != ours.quarantine) {
    return differ("restart.quarantine", ours.quarantine, theirs.quarantine);
  }
  if (theirs.quarantine_window != ours.quarantine_window) {
    return differ("restart.quarantine_window", Seconds(ours.quarantine_window),
                  Seconds(theirs.quarantine_window));
  }
  if (theirs.master_addr != ours.master_addr || theirs.master_port != ours.master_port) {
    const auto text = [](const JobSpec& spec) {
      return absl::StrCat(spec.master_addr.empty() ? "(chosen)" : spec.master_addr, ":",
                          spec.master_port == 0 ? "(chosen)" : absl::StrCat(spec.master_port));
    };
    return differ("--master-addr and --master-port", text(ours), text(theirs));
  }
  return "";
}

}  // namespace ddprun
