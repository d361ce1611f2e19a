#include "rendezvous/service/job/output_commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun {
namespace output_commit_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Keeps the callbacks of all commits, and writes nothing.
class SilentStore final : public Store {
 public:
  absl::StatusOr<std::map<std::string, std::string>> Load() override {
    return std::map<std::string, std::string>();
  }
  void Commit(Batch, Done done) override { dones.push_back(std::move(done)); }

  std::vector<Done> dones;
};

JobMachine::Action Note(const std::string& text) { return JobMachine::Note{text}; }

class OutputCommitTest : public testing::Test {
 protected:
  // The actions of all jobs that may be performed now.
  std::vector<std::string> Released() {
    std::vector<std::string> texts;
    while (const JobPtr job = commit_.NextReleased()) {
      while (const auto action = commit_.TakeReleased(*job)) {
        texts.push_back(std::get<JobMachine::Note>(*action).text);
      }
    }
    return texts;
  }
  bool Hold(const JobPtr& job, std::optional<OutputCommit::Batch> batch,
            JobMachine::Action action) {
    return commit_.Hold(job, batch, action);
  }

  SilentStore store_;
  std::vector<OutputCommit::Batch> outcomes_;
  OutputCommit commit_{
      &store_, [this](OutputCommit::Batch batch, Store::Outcome) { outcomes_.push_back(batch); }};
  const JobPtr job_ = std::make_shared<ServedJob>("job", "", 0, JobMachineOptions());
  const JobPtr other_ = std::make_shared<ServedJob>("other", "", 0, JobMachineOptions());
};

// Seen red with a Hold() that only checks the batch: "c" came before "b".
TEST_F(OutputCommitTest, WhatAJobSaysAfterItsStateWaitsForItInItsOrder) {
  EXPECT_FALSE(Hold(job_, std::nullopt, Note("before")));
  const auto batch = commit_.Persist(*job_, {});
  ASSERT_TRUE(batch);
  EXPECT_TRUE(Hold(job_, batch, Note("a")));
  EXPECT_TRUE(Hold(job_, batch, Note("b")));
  EXPECT_TRUE(Hold(job_, std::nullopt, Note("c")));
  EXPECT_FALSE(Hold(other_, std::nullopt, Note("of another job")));
  EXPECT_THAT(Released(), IsEmpty());
  store_.dones[0](Store::Outcome::kKept);
  EXPECT_THAT(outcomes_, ElementsAre(*batch));
  commit_.SetDurable(*batch);
  EXPECT_THAT(Released(), ElementsAre("a", "b", "c"));
  EXPECT_FALSE(Hold(job_, batch, Note("after")));
}

TEST_F(OutputCommitTest, EachBatchReleasesWhatWaitsForItAndNoMore) {
  const auto first = commit_.Persist(*job_, {});
  EXPECT_TRUE(Hold(job_, first, Note("a")));
  const auto second = commit_.Persist(*other_, {});
  EXPECT_TRUE(Hold(other_, second, Note("b")));
  const auto third = commit_.Persist(*job_, {});
  EXPECT_TRUE(Hold(job_, third, Note("c")));
  commit_.SetDurable(*second);
  EXPECT_THAT(Released(), ElementsAre("a", "b"));
  commit_.SetDurable(*third);
  EXPECT_THAT(Released(), ElementsAre("c"));
}

TEST_F(OutputCommitTest, AnAnswerToAHeartbeatWaitsForNothing) {
  const auto batch = commit_.Persist(*job_, {});
  EXPECT_TRUE(Hold(job_, batch, Note("a")));
  EXPECT_FALSE(Hold(job_, batch, JobMachine::Send{{}, HeartbeatAck{}}));
}

TEST_F(OutputCommitTest, WithoutAStoreNothingWaits) {
  OutputCommit commit(nullptr, nullptr);
  EXPECT_FALSE(commit.Persist(*job_, {}));
  commit.Erase("job");
}

}  // namespace output_commit_test
}  // namespace ddprun
