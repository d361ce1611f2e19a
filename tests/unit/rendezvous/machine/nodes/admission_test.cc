#include "rendezvous/machine/nodes/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace ddprun {
namespace admission_test {

using testing::HasSubstr;
using testing::StartsWith;

void Change(bool* value) { *value = !*value; }
void Change(int* value) { ++*value; }
void Change(Duration* value) { *value += std::chrono::seconds(1); }
void Change(std::optional<Duration>* value) { value->emplace(1); }
void Change(std::vector<int>* value) { value->push_back(3); }
void Change(std::string* value) { value->push_back('x'); }

// Converts to a value for any member. std::optional would accept it in two ways, so it has an
// overload of its own.
struct AnyValue {
  template <class T>
  operator T() const;
};
struct AnyOptional {
  template <class T>
  operator std::optional<T>() const;
};

// The number of a struct's members: the largest number of values from which it can be made.
template <class T, class... Values>
constexpr int Members() {
  if constexpr (requires { T{Values{}..., AnyValue{}}; }) {
    return Members<T, Values..., AnyValue>();
  } else if constexpr (requires { T{Values{}..., AnyOptional{}}; }) {
    return Members<T, Values..., AnyOptional>();
  } else {
    return sizeof...(Values);
  }
}

TEST(JobSpecTest, EveryMemberIsDescribed) {
  static_assert(Members<JobSpec>() == 2, "GroupSpec and HangSpec, and nothing else");
  int described = 0;
  ForEachField([&](auto, const JobSpecField&) { ++described; });
  EXPECT_EQ(described, Members<GroupSpec>() + Members<HangSpec>());
}

TEST(JobSpecTest, AgentsMustAgreeOnEveryField) {
  JobSpec ours;
  ours.all_nodes = 5;
  ForEachField([&](auto member, const JobSpecField& field) {
    JobSpec theirs = ours;
    Change(&(theirs.*member));
    EXPECT_THAT(WhyJobDiffers(ours, theirs), StartsWith(field.label)) << field.wire;
    EXPECT_THAT(WhyJobDiffers(theirs, ours), HasSubstr("start every node with the same command"))
        << field.wire;
  });
  EXPECT_EQ(WhyJobDiffers(ours, ours), "");
}

TEST(JobSpecTest, WhatIsShownTogetherIsToldTogether) {
  JobSpec ours;
  JobSpec theirs;
  theirs.master_port = 29500;
  EXPECT_EQ(WhyJobDiffers(ours, theirs),
            "--master-addr and --master-port is (chosen):29500 here, but the job began with "
            "(chosen):(chosen): start every node with the same command");
  theirs = {};
  theirs.restart_window = std::chrono::hours(1);
  EXPECT_THAT(WhyJobDiffers(ours, theirs),
              StartsWith("--restart-window is 3600 s here, but the job began with not set:"));
}

// For example an agent that runs outside of the Slurm step, or of an older ddprun.
TEST(JobSpecTest, WhoDoesNotKnowTheNumberOfNodesAgreesWithAll) {
  JobSpec ours;
  JobSpec theirs;
  theirs.all_nodes = 3;
  EXPECT_EQ(WhyJobDiffers(ours, theirs), "");
  EXPECT_EQ(WhyJobDiffers(theirs, ours), "");
  ours.all_nodes = 2;
  EXPECT_THAT(WhyJobDiffers(ours, theirs),
              StartsWith("the number of nodes of the Slurm step is 3 here, but the job began with "
                         "2:"));
}

TEST(JobSpecTest, AnAgentThatKnowsNothingOfHangQuarantineAgreesWithAll) {
  JobSpec older;
  older.hang_quarantine = 0;
  EXPECT_EQ(WhyJobDiffers(JobSpec{}, older), "");
  EXPECT_EQ(WhyJobDiffers(older, JobSpec{}), "");
}

TEST(ProgramTest, AnotherNameIsRefusedWithinARole) {
  const WorkerProgram ours{"default", "a.sh"};
  EXPECT_EQ(WhyProgramDiffers(ours, "n1", {"default", "b.sh"}),
            "the workers here run b.sh, but those of n1 in the same job run a.sh: start every node "
            "with the same command, and give each job its own --rdzv-id");
  EXPECT_EQ(WhyProgramDiffers(ours, "n1", {"default", "a.sh", {1}}), "");
  EXPECT_EQ(WhyProgramDiffers(ours, "n1", {"other", "b.sh"}), "");
  EXPECT_EQ(WhyProgramDiffers(ours, "n1", {}), "") << "of an earlier version";
}

TEST(ProgramTest, TheFirstOtherArgumentIsFound) {
  const auto first = [](std::vector<std::uint32_t> ours, std::vector<std::uint32_t> theirs) {
    return FirstOtherArgument({"", "a", std::move(ours)}, {"", "a", std::move(theirs)});
  };
  EXPECT_EQ(first({1, 2, 3}, {1, 2, 3}), std::nullopt);
  EXPECT_EQ(first({1, 2, 3}, {1, 5, 6}), 2);
  EXPECT_EQ(first({1, 2}, {1, 2, 3}), 3);
  EXPECT_EQ(first({1, 2}, {}), 1);
  EXPECT_EQ(FirstOtherArgument({"x", "a", {1}}, {"y", "a", {2}}), std::nullopt);
}

}  // namespace admission_test
}  // namespace ddprun
