#include "launcher/agent/worker_environment.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/config/job_spec_of.h"
#include "worker/contract/environment.h"

namespace ddprun {
namespace {

// Leaves one GPU: entry `index` of the visible ones, or GPU `index` if all are visible.
void TakeOneGpu(int index, std::map<std::string, std::string>* variables) {
  const auto [gpu, all] = variables->emplace("CUDA_VISIBLE_DEVICES", absl::StrCat(index));
  if (all) return;
  const std::vector<std::string> visible = absl::StrSplit(gpu->second, ',');
  if (index >= static_cast<int>(visible.size())) return;  // refused by the configuration
  gpu->second = std::string(absl::StripAsciiWhitespace(visible[index]));
}

// True for a variable that stands for a flag about credentials. The variable has the path of a
// secret, not the secret itself. Workers need neither.
bool IsAboutCredentials(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "DDPRUN_") && !absl::ConsumePrefix(&name, "PET_")) return false;
  return absl::StartsWith(name, "TOKEN") || absl::StartsWith(name, "TLS_") ||
         absl::StartsWith(name, "MUNGE");
}

constexpr std::chrono::hours kLongestHangLimit(24 * 7);

using Variables = std::map<std::string, std::string>;

// The variables of a worker that do not come from its agent.
Variables UsersVariables(const std::vector<std::string>& inherited, const Variables& configured) {
  Variables variables;
  for (const std::string& entry : inherited) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;  // no variable
    std::string name = entry.substr(0, equals);
    if (!IsAboutCredentials(name)) variables[std::move(name)] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : configured) variables[name] = value;
  for (const env::Variable& variable : env::kVariables) {
    if (variable.scope != env::Scope::kUnlessSet) variables.erase(variable.name);
  }
  return variables;
}

// 0: hangs are not judged. At most kLongestHangLimit, so that the milliseconds fit into an int.
std::chrono::milliseconds HangLimit(const JobConfig& config) {
  const Duration limit = std::min<Duration>(LongestHangLimit(JobSpecOf(config)), kLongestHangLimit);
  return std::chrono::duration_cast<std::chrono::milliseconds>(limit);
}

void SetRestore(const RestorePlan& plan, Variables& variables) {
  variables[env::kRestoreStep] = absl::StrCat(plan.step());
  variables[env::kRestoreTier] = plan.state ? ToString(plan.state->tier) : env::kTierNone;
  if (plan.unseen) {
    const SavedState& unseen = plan.unseen->state;
    variables[env::kRestoreUnseen] =
        absl::StrCat(unseen.step, " ", plan.unseen->source.value, " ", unseen.requeue_number, " ",
                     unseen.generation.value);
  }
  if (!plan.state) return;
  variables[env::kRestoreRank] = absl::StrCat(plan.source.value);
  variables[env::kRestoreEpoch] = absl::StrCat(plan.state->requeue_number);
  variables[env::kRestoreGeneration] = absl::StrCat(plan.state->generation.value);
}

Variables MakeVariables(const WorkerPlace& place, const std::vector<std::string>& inherited,
                        const Variables& configured) {
  Variables variables = UsersVariables(inherited, configured);
  const JobConfig& config = *place.config;
  const Assignment& assignment = place.assignment;
  const bool virtual_local_rank = config.program.virtual_local_rank;
  variables[env::kRank] = absl::StrCat(place.rank().value);
  variables[env::kLocalRank] = virtual_local_rank ? "0" : absl::StrCat(place.local_rank.value);
  if (virtual_local_rank) TakeOneGpu(place.local_rank.value, &variables);
  variables[env::kGroupRank] = absl::StrCat(assignment.node_rank.value);
  variables[env::kRoleName] = config.role;
  const RolePlace role = place.role_place();
  variables[env::kRoleRank] = absl::StrCat(role.first_rank.value + place.local_rank.value);
  variables[env::kRoleWorldSize] = absl::StrCat(role.world_size);
  variables[env::kWorldSize] = absl::StrCat(assignment.world_size);
  variables[env::kLocalWorldSize] = absl::StrCat(config.nproc_per_node);
  variables[env::kGroupWorldSize] = absl::StrCat(assignment.node_count);
  variables[env::kMasterAddr] = assignment.master_addr;
  variables[env::kMasterPort] = absl::StrCat(assignment.master_port);
  variables[env::kRestartCount] = absl::StrCat(assignment.restart_count);
  variables[env::kMaxRestarts] = absl::StrCat(assignment.max_restarts);
  variables[env::kRunId] = config.rendezvous.id;
  variables[env::kUseAgentStore] = assignment.agent_store ? "True" : "False";
  variables[env::kErrorFile] = place.error_file;
  variables.try_emplace(env::kNcclAsyncErrorHandling, "1");
  variables.try_emplace(env::kOlderNcclAsyncErrorHandling, "1");
  if (config.nproc_per_node > 1) variables.try_emplace(env::kOmpNumThreads, "1");

  variables[env::kGeneration] = absl::StrCat(place.generation.value);
  variables[env::kEpoch] = absl::StrCat(config.rendezvous.requeue_number);
  variables[env::kRunDir] = place.run_dir;
  if (assignment.run_id != RunId{}) {
    variables[env::kJobRunId] = RunIdText(assignment.run_id);
  }
  if (config.checkpoint.take_folder) variables[env::kTakeFolder] = "1";
  variables[env::kControlSocket] = place.control_socket;
  if (!config.checkpoint_dir.empty()) variables[env::kCheckpointDir] = config.checkpoint_dir;
  if (!place.snapshot_dir.empty()) variables[env::kSnapshotDir] = place.snapshot_dir;
  variables[env::kStateTimeout] = absl::StrCat(config.checkpoint.state_timeout.count());
  if (const auto limit = HangLimit(config); limit.count() > 0) {
    variables[env::kHangLimit] = absl::StrCat(limit.count());
  }
  if (config.spec.start_anew) variables[env::kAnew] = "1";
  if (!assignment.secret.empty()) variables[env::kPeerSecret] = env::kAskForSecret;
  if (assignment.restore) SetRestore(*assignment.restore, variables);
  return variables;
}

std::vector<std::string> ToEntries(const Variables& variables) {
  std::vector<std::string> environment;
  environment.reserve(variables.size());
  for (const auto& [name, value] : variables) environment.push_back(absl::StrCat(name, "=", value));
  return environment;
}

}  // namespace

std::string RunIdText(RunId run_id) {
  return absl::StrCat(absl::Hex(run_id.value, absl::kZeroPad16));
}

std::vector<std::string> WorkerEnvironment(const WorkerPlace& place,
                                           const std::vector<std::string>& inherited,
                                           const Variables& configured) {
  return ToEntries(MakeVariables(place, inherited, configured));
}

std::vector<std::string> StandbyEnvironment(const WorkerPlace& place,
                                            const std::vector<std::string>& inherited,
                                            const Variables& configured) {
  Variables variables = MakeVariables(place, inherited, configured);
  for (const env::Variable& variable : env::kVariables) {
    if (variable.scope == env::Scope::kRank) variables.erase(variable.name);
  }
  variables[env::kStandby] = "1";
  return ToEntries(variables);
}

std::vector<std::string> WorkerArguments(const std::vector<std::string>& command,
                                         LocalRank local_rank) {
  const std::string number = absl::StrCat(local_rank.value);
  std::vector<std::string> arguments;
  arguments.reserve(command.size());
  for (const std::string& argument : command) {
    arguments.push_back(absl::StrReplaceAll(argument, {{"${local_rank}", number}}));
  }
  return arguments;
}

}  // namespace ddprun
