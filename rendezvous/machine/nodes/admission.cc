#include "rendezvous/machine/nodes/admission.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "rendezvous/core/words.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

template <class T>
bool Agree(const T& ours, const T& theirs, const JobSpecField& field) {
  const bool unknown =
      field.agreement == Agreement::kEqualIfKnown && (ours == T{} || theirs == T{});
  return unknown || ours == theirs;
}

std::string Text(bool on) { return on ? "on" : "off"; }
std::string Text(int number) { return absl::StrCat(number); }
std::string Text(Duration duration) { return Seconds(duration); }
std::string Text(const std::optional<Duration>& duration) { return Seconds(*duration); }
std::string Text(const std::string& text) { return text; }
std::string Text(const std::vector<int>& numbers) { return absl::StrJoin(numbers, ","); }

// The values of all fields with this label: "2:4" for --nnodes.
std::string TextOf(const JobSpec& spec, absl::string_view label) {
  std::vector<std::string> texts;
  ForEachField([&](auto member, const JobSpecField& field) {
    if (label != field.label) return;
    const auto& value = spec.*member;
    const bool is_unset = value == std::decay_t<decltype(value)>{};
    texts.push_back(is_unset && field.unset != nullptr ? field.unset : Text(value));
  });
  return absl::StrJoin(texts, ":");
}

std::string WhyRankIsRefused(const JobView& view, const NodeSpec& node) {
  const auto& wanted = node.requested_rank;
  if (!view.roster.empty() &&
      view.roster.nodes().front().spec.requested_rank.has_value() != wanted.has_value()) {
    return absl::StrCat("this agent ", wanted ? "asks" : "does not ask",
                        " for a node rank, and the others ", wanted ? "do not" : "do",
                        ": give --node-rank on every node, or on none");
  }
  if (!wanted) return "";
  if (wanted->value < 0 || wanted->value >= view.life.spec->max_nodes) {
    return absl::StrCat("--node-rank is ", wanted->value, ", and a job of ",
                        Nodes(view.life.spec->max_nodes), " has 0 to ",
                        view.life.spec->max_nodes - 1);
  }
  const Node* const holder = view.roster.HolderOf(*wanted);
  return holder == nullptr ? "" : WhyRankIsTaken(*wanted, holder->spec.host);
}

}  // namespace

std::string WhyMalformed(const Join& join) {
  if (join.node.worker_count < 1 || join.job.min_nodes < 1 ||
      join.job.max_nodes < join.job.min_nodes) {
    return "a node needs at least one worker, and a job 1 ≤ MIN ≤ MAX nodes";
  }
  if (join.job.lease < kHeartbeatsPerLease * join.job.heartbeat) {
    return absl::StrCat("a lease of ", Seconds(join.job.lease),
                        " is less than three heartbeats of ", Seconds(join.job.heartbeat));
  }
  return "";
}

std::string WhyLeaseIsRefused(const JobMachineOptions& options, Duration lease) {
  if (lease >= options.shortest_lease && lease <= options.longest_lease) return "";
  return absl::StrCat("this rendezvous is one of several: the lease must be from ",
                      Seconds(options.shortest_lease), " to ", Seconds(options.longest_lease),
                      " (found ", Seconds(lease), "); leave rendezvous.lease out");
}

std::string WhyJobDiffers(const JobSpec& ours, const JobSpec& theirs) {
  const char* differs = nullptr;
  ForEachField([&](auto member, const JobSpecField& field) {
    if (differs == nullptr && !Agree(ours.*member, theirs.*member, field)) differs = field.label;
  });
  if (differs == nullptr) return "";
  return absl::StrCat(differs, " is ", TextOf(theirs, differs), " here, but the job began with ",
                      TextOf(ours, differs), ": start every node with the same command");
}

bool AreComparable(const WorkerProgram& ours, const WorkerProgram& theirs) {
  return ours.role == theirs.role && !ours.name.empty() && !theirs.name.empty();
}

std::string WhyProgramDiffers(const WorkerProgram& ours, const std::string& host,
                              const WorkerProgram& theirs) {
  if (!AreComparable(ours, theirs) || ours.name == theirs.name) return "";
  return absl::StrCat(
      "the workers here run ", theirs.name, ", but those of ", host, " in the same job run ",
      ours.name, ": start every node with the same command, and give each job its own --rdzv-id");
}

std::optional<std::size_t> FirstOtherArgument(const WorkerProgram& ours,
                                              const WorkerProgram& theirs) {
  if (!AreComparable(ours, theirs)) return std::nullopt;
  const auto [at, other] = std::mismatch(ours.arguments.begin(), ours.arguments.end(),
                                         theirs.arguments.begin(), theirs.arguments.end());
  if (at == ours.arguments.end() && other == theirs.arguments.end()) return std::nullopt;
  return static_cast<std::size_t>(at - ours.arguments.begin()) + 1;
}

const Node* ComparableNode(const Roster& roster, const WorkerProgram& program) {
  return program.name.empty() ? nullptr : roster.NodeWithProgram(program.role);
}

std::string WhyRankIsTaken(NodeRank rank, const std::string& by) {
  return absl::StrCat("node rank ", rank.value, " is taken by ", by,
                      ": give every node a --node-rank of its own");
}

std::string WhyJoinIsRefused(const JobView& view, int max_agents, const Join& join) {
  if (std::string why = WhyMalformed(join); !why.empty()) return why;
  if (!view.life.spec) return "";
  if (std::string why = WhyJobDiffers(*view.life.spec, join.job); !why.empty()) return why;
  if (const Node* const node = ComparableNode(view.roster, join.program)) {
    std::string why = WhyProgramDiffers(node->program, node->spec.host, join.program);
    if (!why.empty()) return why;
  }
  if (join.why_ineligible.empty() && view.life.quarantine->Excludes(join.node.host)) {
    return absl::StrCat(join.node.host, " is left out of ", NameOfJob(view.job), ": ",
                        WhyExcluded(view.life, join.node.host));
  }
  if (view.roster.size() >= max_agents) {
    return absl::StrCat(NameOfJob(view.job), " has ", view.roster.size(),
                        " agents, and no more are possible");
  }
  return WhyRankIsRefused(view, join.node);
}

std::string WhyExcluded(const JobLife& life, const std::string& host) {
  const int hangs = life.quarantine->HangsOf(host);
  if (life.spec->hang_quarantine > 0 && hangs >= life.spec->hang_quarantine) {
    return absl::StrCat("its ranks hung ", hangs, hangs == 1 ? " time" : " times");
  }
  if (life.spec->quarantine == 0) return "it was not fit when it joined before";
  return absl::StrCat("its workers were the root cause ", life.spec->quarantine,
                      life.spec->quarantine == 1 ? " time" : " times", " within ",
                      Seconds(life.spec->quarantine_window));
}

bool IsReplaceable(const Roster& roster, const std::string& host) {
  const auto& nodes = roster.nodes();
  const auto others = std::count_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    const bool loads = node.held_back.loads && !node.held_back.is_stuck() && !node.suspect;
    return (node.free() || loads) && !node.removed && node.spec.host != host;
  });
  return others >= static_cast<std::ptrdiff_t>(roster.members().size());
}

}  // namespace ddprun
