// What ddprun accepts from its unwind helper. A damaged library can make the helper write anything.
#include "launcher/stacks/helper_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "launcher/stacks/unwind_helper.h"

namespace ddprun::stacks {
namespace helper_answer_test {

using testing::HasSubstr;

std::vector<UnwoundThread> TwoThreads() {
  return {{7,
           {{"Inner(bool)", "/src/a.cc", 12, "a"}, {"main", "/src/a.cc", 30, "a"}},
           true,
           "",
           {0x7fff00000010, 0x7fff00000040}},
          {8, {{"", "", 0, "libc.so.6"}}, false, "no CFI", {0}}};
}

// The answer that the helper writes for these threads.
std::string FormatAnswer(const std::vector<UnwoundThread>& threads) {
  AnswerWriter writer;
  for (const UnwoundThread& thread : threads) writer.Add(thread);
  writer.End();
  return writer.Take();
}

TEST(HelperAnswerTest, ComesBackAsItWasWritten) {
  const Unwound read = ParseAnswer(FormatAnswer(TwoThreads()));
  ASSERT_TRUE(read.status.ok()) << read.status;
  ASSERT_EQ(read.threads.size(), 2u);
  for (const UnwoundThread& thread : TwoThreads()) {
    const UnwoundThread& found = read.threads.at(thread.tid);
    EXPECT_EQ(found.frames, thread.frames);
    EXPECT_EQ(found.complete, thread.complete);
    EXPECT_EQ(found.error, thread.error);
    EXPECT_EQ(found.stack_pointers, thread.stack_pointers);
  }
}

TEST(HelperAnswerTest, OfOneThatWasCutOffTheWholeThreadsAreKept) {
  const std::string answer = FormatAnswer(TwoThreads());
  std::size_t most = 0;
  for (std::size_t size = 0; size < answer.size(); ++size) {
    const Unwound read = ParseAnswer(answer.substr(0, size));
    EXPECT_TRUE(absl::IsDataLoss(read.status)) << size;
    EXPECT_GE(read.threads.size(), most) << size;
    most = read.threads.size();
  }
  EXPECT_EQ(most, 2u);
}

TEST(HelperAnswerTest, DamageIsRefusedOrHarmless) {
  const std::string answer = FormatAnswer(TwoThreads());
  std::size_t refused = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::string damaged = answer;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    const Unwound read = ParseAnswer(damaged);
    refused += read.status.ok() ? 0 : 1;
    for (const auto& [tid, thread] : read.threads) {
      EXPECT_GT(tid, 0);
      EXPECT_LE(thread.frames.size(), 1024u);
      for (const StackFrame& frame : thread.frames) {
        EXPECT_LE(frame.function.size(), kMaxStackNameBytes);
      }
    }
  }
  EXPECT_GT(refused, 1500u);
}

TEST(HelperAnswerTest, EachKindOfDamageHasItsName) {
  const std::string answer = FormatAnswer(TwoThreads());
  const auto error = [](const std::string& bytes) {
    return std::string(ParseAnswer(bytes).status.message());
  };
  EXPECT_THAT(error(answer + "x"), HasSubstr("more than an answer"));
  EXPECT_THAT(error(FormatAnswer({TwoThreads()[0], TwoThreads()[0]})), HasSubstr("a thread twice"));
  EXPECT_THAT(error(FormatAnswer({{0, {}, true, "", {}}})), HasSubstr("a thread that cannot be"));
  EXPECT_THAT(error(FormatAnswer({{1, std::vector<StackFrame>(1025), true, "", {}}})),
              HasSubstr("too many frames"));
  EXPECT_THAT(error(answer.substr(0, 4) + '\x09'), HasSubstr("an unknown record"));
  EXPECT_THAT(error("no answer at all"), HasSubstr("no readable answer"));
}

TEST(HelperCopiesTest, ComeBackAndAreRefusedWhereTheyAreCut) {
  CopiedProcess process;
  process.pid = 5;
  process.maps = "maps";
  CopiedThread& thread = process.threads.emplace_back();
  thread.tid = 5;
  thread.registers = {1, 2, 3};
  thread.stack_start = 4096;
  thread.stack = "stack";
  thread.stack_is_whole = true;
  process.threads.emplace_back().copied = absl::DeadlineExceededError("left out");
  CopiedProcess refused;
  refused.status = absl::PermissionDeniedError("no");
  const std::string copies = FormatCopies({process, refused});
  const auto read = ParseCopies(copies);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), 1u);
  ASSERT_EQ(read->front().threads.size(), 1u);
  EXPECT_EQ(read->front().maps, "maps");
  EXPECT_EQ(read->front().threads[0].registers, thread.registers);
  EXPECT_EQ(read->front().threads[0].stack, "stack");
  EXPECT_EQ(read->front().threads[0].stack_start, 4096u);
  for (std::size_t size = 5; size < copies.size(); ++size) {
    EXPECT_FALSE(ParseCopies(copies.substr(0, size)).has_value()) << size;
  }
}

}  // namespace helper_answer_test
}  // namespace ddprun::stacks
