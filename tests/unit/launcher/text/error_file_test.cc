#include "launcher/text/error_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

namespace ddprun {
namespace error_file_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kRecorded[] = R"({"message": {"message": "ValueError: loss is NaN",
    "extraInfo": {"py_callstack": "Traceback:\n  File \"t.py\", line 3\n\nValueError: loss is NaN\n",
                  "timestamp": "1"}}})";

TEST(ErrorFileTest, BothFormsOfTorchrunAreRead) {
  EXPECT_EQ(ParseErrorFile(R"({"message": "out of cheese"})").message, "out of cheese");
  EXPECT_EQ(ParseErrorFile(kRecorded).message, "ValueError: loss is NaN");
}

TEST(ErrorFileTest, TheCallStackIsTheTraceback) {
  EXPECT_THAT(ParseErrorFile(kRecorded).traceback,
              ElementsAre("Traceback:", "  File \"t.py\", line 3", "ValueError: loss is NaN"));
  EXPECT_THAT(ParseErrorFile(R"({"message": "out of cheese"})").traceback, IsEmpty());
  EXPECT_THAT(ParseErrorFile(R"({"message": {"extraInfo": {"py_callstack": 3}}})").traceback,
              IsEmpty());
}

TEST(ErrorFileTest, AnythingElseIsNoMessage) {
  for (const char* text : {"", "{", "[]", "3", "{}", R"({"message": 3})", R"({"message": {}})",
                           R"({"message": {"message": [1]}})", "\xff\xfe"}) {
    EXPECT_EQ(ParseErrorFile(text).message, "") << text;
  }
}

TEST(ErrorFileTest, LongTextsBecomeOneBoundedLine) {
  const std::string text =
      ParseErrorFile("{\"message\": \"a\\nb" + std::string(9000, 'x') + "\"}").message;
  EXPECT_EQ(text.substr(0, 4), "a bx");
  EXPECT_EQ(text.size(), 2000u);
}

// torch's own launcher writes "errorCode", too, and torchx reads it.
TEST(ErrorFileOfLauncherTest, HasTheExitCodeBesideWhatTheWorkerWrote) {
  auto expected = nlohmann::json::parse(kRecorded);
  expected["message"]["errorCode"] = 3;
  EXPECT_EQ(nlohmann::json::parse(ErrorFileOfLauncher(kRecorded, ExitStatus{3})), expected);
  expected["message"]["errorCode"] = -SIGSEGV;
  EXPECT_EQ(nlohmann::json::parse(ErrorFileOfLauncher(kRecorded, ExitStatus{0, SIGSEGV})),
            expected);
}

TEST(ErrorFileOfLauncherTest, APlainMessageStaysAsItIsAndWhatIsNoJsonIsNothing) {
  EXPECT_EQ(ErrorFileOfLauncher(R"({"message":"out of cheese"})", ExitStatus{3}),
            R"({"message":"out of cheese"})");
  EXPECT_EQ(ErrorFileOfLauncher("", ExitStatus{3}), "");
  EXPECT_EQ(ErrorFileOfLauncher("[1]", ExitStatus{3}), "");
}

TEST(ErrorFileOfLauncherTest, WhatIsNestedWithoutEndIsCut) {
  const std::string deep = std::string(30'000, '[') + std::string(30'000, ']');
  const std::string copied =
      ErrorFileOfLauncher("{\"message\": \"no\", \"deep\": " + deep + "}", ExitStatus{3});
  EXPECT_EQ(ParseErrorFile(copied).message, "no");
  EXPECT_LT(copied.size(), 100u);
}

}  // namespace error_file_test
}  // namespace ddprun
