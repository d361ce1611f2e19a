#include "rendezvous/http/page/shared_answers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::http {
namespace shared_answers_test {

using namespace std::chrono_literals;

class SharedAnswersTest : public testing::Test {
 protected:
  // Returns the answer: "?" if there is none yet, "none" for an error.
  std::string Ask(const ViewKey& key) {
    const auto heard = std::make_shared<std::string>("?");
    accepted_ = answers_.Get(key, [heard](const SharedAnswers::Answer& answer) {
      *heard = answer.ok() ? **answer : "none";
    });
    heard_.push_back(heard);
    return *heard;
  }
  void AnswerAll(const std::string& text) {
    for (auto& [key, done] : std::exchange(made_, {})) {
      done(std::make_shared<const std::string>(text + " of " + key.owner));
    }
  }

  TimePoint now_ = TimePoint() + 1h;
  std::vector<std::pair<ViewKey, SharedAnswers::Done>> made_;
  std::vector<std::shared_ptr<std::string>> heard_;
  bool accepted_ = false;
  SharedAnswers answers_{
      [this](const ViewKey& key, SharedAnswers::Done done) { made_.emplace_back(key, done); },
      [this] { return now_; }};
};

TEST_F(SharedAnswersTest, AllWhoAskWithinASecondShareOne) {
  EXPECT_EQ(Ask({"ann", ""}), "?");
  EXPECT_EQ(Ask({"ann", ""}), "?");
  EXPECT_EQ(made_.size(), 1u);
  AnswerAll("first");
  EXPECT_EQ(*heard_[0], "first of ann");
  EXPECT_EQ(*heard_[1], "first of ann");
  now_ += 999ms;
  EXPECT_EQ(Ask({"ann", ""}), "first of ann");
  EXPECT_TRUE(made_.empty());
  now_ += 1ms;
  EXPECT_EQ(Ask({"ann", ""}), "?");
  EXPECT_EQ(made_.size(), 1u);
}

TEST_F(SharedAnswersTest, NobodyGetsWhatIsAnothersOrIsNotRedacted) {
  Ask({"ann", ""});
  AnswerAll("first");
  EXPECT_EQ(Ask({"bob", ""}), "?");
  EXPECT_EQ(Ask({"ann", "", true}), "?");
  EXPECT_EQ(Ask({"ann", "job"}), "?");
  EXPECT_EQ(made_.size(), 3u);
}

TEST_F(SharedAnswersTest, OnlySoManyWait) {
  for (std::size_t i = 0; i < SharedAnswers::kMostWaiting; ++i) Ask({"ann", std::to_string(i % 7)});
  EXPECT_TRUE(accepted_);
  Ask({"ann", ""});
  EXPECT_FALSE(accepted_);
  EXPECT_EQ(made_.size(), 7u);
  AnswerAll("first");
  Ask({"ann", ""});
  EXPECT_TRUE(accepted_);
}

TEST_F(SharedAnswersTest, WhatIsNotThereIsAskedForAgain) {
  Ask({"ann", "nobodys"});
  made_[0].second(absl::NotFoundError("none"));
  EXPECT_EQ(*heard_[0], "none");
  EXPECT_EQ(Ask({"ann", "nobodys"}), "?");
  EXPECT_EQ(made_.size(), 2u);
}

}  // namespace shared_answers_test
}  // namespace ddprun::http
