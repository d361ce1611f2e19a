#include "rendezvous/machine/admission.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

template <class T>
bool Agree(const T& ours, const T& theirs, const JobSpecField& field) {
  const bool unknown =
      field.agreement == Agreement::kEqualIfKnown && (ours == T{} || theirs == T{});
  return unknown || ours == theirs;
}

std::string Text(int number) { return absl::StrCat(number); }
std::string Text(Duration duration) { return Seconds(duration); }
std::string Text(const std::optional<Duration>& duration) { return Seconds(*duration); }
std::string Text(const std::string& text) { return text; }
std::string Text(const std::vector<int>& numbers) { return absl::StrJoin(numbers, ","); }

// All fields with this label: "2:4" of --nnodes.
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

}  // namespace ddprun
