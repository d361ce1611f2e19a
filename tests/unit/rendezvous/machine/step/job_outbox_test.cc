#include "rendezvous/machine/step/job_outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/one_by_one.h"

namespace ddprun {
namespace job_outbox_test {

using job_action::Send;
using job_action::SendToMany;
using testing::ElementsAre;
using testing::SizeIs;

Node NodeOf(std::uint64_t agent) {
  Node node;
  node.agent_id = AgentId{agent};
  return node;
}

class JobOutboxTest : public testing::Test {
 protected:
  const std::string job_ = "job";
  const JobLife life_{7};
  const GenerationState generation_{Generation{3}};
  JobOutbox out_{&job_, &life_, &generation_};
};

// The receivers of a SendToMany or of a Send.
std::vector<std::uint64_t> AddresseesOf(const job_action::Any& action) {
  if (const auto* const one = std::get_if<Send>(&action)) return {one->header.agent_id.value};
  std::vector<std::uint64_t> agents;
  for (const AgentId agent : std::get<SendToMany>(action).to) agents.push_back(agent.value);
  return agents;
}

TEST_F(JobOutboxTest, AMessageForManyIsOneAction) {
  const auto save = JobOutbox::Share(Save{});
  for (std::uint64_t agent = 1; agent <= 1000; ++agent) out_.SendTo(NodeOf(agent), save);
  const auto actions = out_.Take();
  ASSERT_THAT(actions, SizeIs(1));
  EXPECT_THAT(AddresseesOf(actions[0]), SizeIs(1000));
  const auto& many = std::get<SendToMany>(actions[0]);
  EXPECT_EQ(many.HeaderOf(AgentId{5}), (Header{"job", 7, Generation{3}, AgentId{5}}));
}

TEST_F(JobOutboxTest, WhatComesBetweenStaysBetween) {
  const auto stop = JobOutbox::Share(Stop{"why"});
  out_.SendTo(NodeOf(1), stop);
  out_.SendTo(NodeOf(2), stop);
  out_.SendTo(NodeOf(3), Stop{"why", {}, {LocalRank{0}}});
  out_.SendTo(NodeOf(4), stop);
  // This is another message object, although its contents are equal.
  out_.SendTo(NodeOf(5), JobOutbox::Share(Stop{"why"}));
  const auto actions = out_.Take();
  ASSERT_THAT(actions, SizeIs(4));
  EXPECT_THAT(AddresseesOf(actions[0]), ElementsAre(1, 2));
  EXPECT_THAT(AddresseesOf(actions[1]), ElementsAre(3));
  EXPECT_THAT(AddresseesOf(actions[2]), ElementsAre(4));
  EXPECT_THAT(AddresseesOf(actions[3]), ElementsAre(5));
}

TEST_F(JobOutboxTest, OneByOneEachMessageIsAnAction) {
  out_.Log("before");
  const auto stop = JobOutbox::Share(Stop{"why"});
  out_.SendTo(NodeOf(1), stop);
  out_.SendTo(NodeOf(2), stop);
  out_.Log("after");
  const Header first{"job", 7, Generation{3}, AgentId{1}};
  const Header second{"job", 7, Generation{3}, AgentId{2}};
  EXPECT_THAT(OneByOne(out_.Take()),
              ElementsAre(job_action::Note{"before"}, Send{first, Stop{"why"}},
                          Send{second, Stop{"why"}}, job_action::Note{"after"}));
}

TEST_F(JobOutboxTest, TheNextStepBeginsWithNothing) {
  const auto save = JobOutbox::Share(Save{});
  out_.SendTo(NodeOf(1), save);
  out_.Take();
  EXPECT_THAT(out_.Take(), SizeIs(0));
  out_.SendTo(NodeOf(2), save);
  const auto actions = out_.Take();
  ASSERT_THAT(actions, SizeIs(1));
  EXPECT_THAT(AddresseesOf(actions[0]), ElementsAre(2));
}

}  // namespace job_outbox_test
}  // namespace ddprun
