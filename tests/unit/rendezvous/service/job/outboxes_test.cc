#include "rendezvous/service/job/outboxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace outboxes_test {

using testing::ElementsAre;
using testing::IsEmpty;

class OutboxesTest : public testing::Test, public Outboxes::Actor {
 protected:
  void Send(ServedJob& job, const Header& header, const RendezvousMessage&) override {
    done_.push_back(absl::StrCat(job.name, " ", header.agent_id.value));
  }
  void Perform(ServedJob& job, JobMachine::Action& action) override {
    if (const auto* const send = std::get_if<JobMachine::Send>(&action)) {
      Send(job, send->header, send->message);
    } else {
      done_.push_back(absl::StrCat(job.name, " ", std::get<JobMachine::Note>(action).text));
    }
  }

  static JobPtr Job(const std::string& name) {
    return std::make_shared<ServedJob>(name, "", 0, JobMachineOptions());
  }
  void ToMany(const JobPtr& job, std::vector<AgentId> to, bool many) {
    JobMachine::Action action = JobMachine::SendToMany{
        {}, std::move(to), std::make_shared<const RendezvousMessage>(Save{})};
    outboxes_.Deliver(job, action, many);
  }
  void Note(const JobPtr& job, const std::string& text, bool many) {
    JobMachine::Action action = JobMachine::Note{text};
    outboxes_.Deliver(job, action, many);
  }
  void Acknowledge(const JobPtr& job, AgentId agent_id) {
    JobMachine::Action action = JobMachine::Send{{"", 0, {}, agent_id}, HeartbeatAck{}};
    outboxes_.Deliver(job, action, false);
  }
  std::vector<std::string> Take() { return std::exchange(done_, {}); }

  std::vector<std::string> done_;
  CompletionBarrier completions_;
  Outboxes outboxes_{this, &completions_};
};

TEST_F(OutboxesTest, AFewAreToldAtOnce) {
  const JobPtr job = Job("a");
  ToMany(job, {AgentId{1}, AgentId{2}}, /*many=*/false);
  EXPECT_THAT(Take(), ElementsAre("a 1", "a 2"));
  EXPECT_FALSE(outboxes_.ready());
}

TEST_F(OutboxesTest, BetweenTwoMessagesToManyAnotherJobIsAnswered) {
  const JobPtr large = Job("large");
  const JobPtr other = Job("other");
  ToMany(large, {AgentId{1}, AgentId{2}, AgentId{3}}, /*many=*/true);
  EXPECT_THAT(Take(), IsEmpty());
  outboxes_.WorkOff(Duration{});
  EXPECT_THAT(Take(), ElementsAre("large 1"));
  Acknowledge(other, AgentId{9});
  Acknowledge(large, AgentId{3});
  EXPECT_THAT(Take(), ElementsAre("other 9", "large 3"));
  outboxes_.WorkOff(Duration{});
  outboxes_.WorkOff(Duration{});
  EXPECT_THAT(Take(), ElementsAre("large 2", "large 3"));
  EXPECT_FALSE(outboxes_.ready());
}

TEST_F(OutboxesTest, AJobsActionsKeepTheirOrder) {
  const JobPtr job = Job("a");
  Note(job, "first", true);
  ToMany(job, {AgentId{1}, AgentId{2}}, true);
  Note(job, "last", false);  // of a later step with only one action
  for (int i = 0; i < 4; ++i) outboxes_.WorkOff(Duration{});
  EXPECT_THAT(Take(), ElementsAre("a first", "a 1", "a 2", "a last"));
  EXPECT_FALSE(outboxes_.ready());
}

TEST_F(OutboxesTest, JobsTakeTurns) {
  const JobPtr a = Job("a");
  const JobPtr b = Job("b");
  ToMany(a, {AgentId{1}, AgentId{2}}, true);
  ToMany(b, {AgentId{3}, AgentId{4}}, true);
  for (int i = 0; i < 4; ++i) outboxes_.WorkOff(Duration{});
  EXPECT_THAT(Take(), ElementsAre("a 1", "b 3", "a 2", "b 4"));
}

// Seen red with a MaySpeak() that is always true.
TEST(OutboxesValidityTest, WhileItDoesNotHoldAcknowledgementsAreDroppedAndAllElseWaits) {
  class Actor final : public Outboxes::Actor {
   public:
    void Send(ServedJob&, const Header& header, const RendezvousMessage&) override {
      done.push_back(absl::StrCat(header.agent_id.value));
      if (on_send) on_send();
    }
    void Perform(ServedJob& job, JobMachine::Action& action) override {
      const auto* const send = std::get_if<JobMachine::Send>(&action);
      if (send != nullptr) return Send(job, send->header, send->message);
      done.push_back(std::get<JobMachine::Note>(action).text);
    }
    std::vector<std::string> done;
    std::function<void()> on_send;
  } actor;
  CompletionBarrier completions;
  Validity validity;
  Outboxes outboxes(&actor, &completions, &validity);
  const JobPtr job = std::make_shared<ServedJob>("a", "", 0, JobMachineOptions());
  const auto deliver = [&](JobMachine::Action action) {
    outboxes.Deliver(job, action, /*many=*/false);
  };
  const auto message = std::make_shared<const RendezvousMessage>(Save{});
  deliver(JobMachine::Note{"first"});
  deliver(JobMachine::Send{{"", 0, {}, AgentId{9}}, HeartbeatAck{}});
  deliver(JobMachine::SendToMany{{}, {AgentId{1}, AgentId{2}}, message});
  outboxes.WorkOff(std::chrono::hours(1));
  EXPECT_THAT(actor.done, IsEmpty());
  EXPECT_FALSE(outboxes.ready()) << "or the loop would not sleep";

  validity.SetUntil(TimePoint::max());
  EXPECT_TRUE(outboxes.ready());
  deliver(JobMachine::Note{"last"});  // queued behind the waiting actions
  EXPECT_THAT(actor.done, IsEmpty());
  actor.on_send = [&] { validity.SetUntil({}); };
  outboxes.WorkOff(std::chrono::hours(1));
  EXPECT_THAT(actor.done, ElementsAre("first", "1")) << "asked before each message";
  actor.on_send = {};
  validity.SetUntil(TimePoint::max());
  outboxes.WorkOff(std::chrono::hours(1));
  EXPECT_THAT(actor.done, ElementsAre("first", "1", "2", "last"));
  deliver(JobMachine::Send{{"", 0, {}, AgentId{9}}, HeartbeatAck{}});
  EXPECT_EQ(actor.done.back(), "9");
}

TEST_F(OutboxesTest, WhatIsClearedIsNotSaid) {
  const JobPtr job = Job("a");
  ToMany(job, {AgentId{1}, AgentId{2}}, true);
  outboxes_.WorkOff(Duration{});
  Take();
  outboxes_.Clear();
  EXPECT_FALSE(outboxes_.ready());
  ToMany(job, {AgentId{3}}, true);
  outboxes_.WorkOff(Duration{});
  EXPECT_THAT(Take(), ElementsAre("a 3"));
}

}  // namespace outboxes_test
}  // namespace ddprun
