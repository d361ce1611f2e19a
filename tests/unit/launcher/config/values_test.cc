#include "launcher/config/values.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ddprun {
namespace values_test {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

TEST(DurationTest, TakesEachUnit) {
  EXPECT_THAT(ParseDuration("10s"), Optional(milliseconds(10'000)));
  EXPECT_THAT(ParseDuration("500ms"), Optional(milliseconds(500)));
  EXPECT_THAT(ParseDuration("5min"), Optional(milliseconds(300'000)));
  EXPECT_THAT(ParseDuration("2h"), Optional(milliseconds(7'200'000)));
}

TEST(DurationTest, ZeroNeedsNoUnit) { EXPECT_THAT(ParseDuration("0"), Optional(milliseconds(0))); }

TEST(DurationTest, RefusesWhatHasNoUnitOrIsNoWholeNumber) {
  for (const char* const text : {"10", "", "s", "-1s", "1.5s", "10 s", "10sec", "5m", "1d", "10S",
                                 "99999999999999999999s", "9999999999999999h"}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
  }
}

TEST(DurationTest, IsFormattedInTheLargestExactUnit) {
  for (const char* const text : {"2h", "90min", "61s", "1500ms", "0s"}) {
    EXPECT_EQ(FormatDuration(*ParseDuration(text)), text);
  }
  EXPECT_EQ(FormatDuration(milliseconds(120'000)), "2min");
}

TEST(SizeTest, TakesEachUnitAndZero) {
  EXPECT_THAT(ParseSize("64KiB"), Optional(64 << 10));
  EXPECT_THAT(ParseSize("64MiB"), Optional(64 << 20));
  EXPECT_THAT(ParseSize("2GiB"), Optional(std::int64_t{2} << 30));
  EXPECT_THAT(ParseSize("1TiB"), Optional(std::int64_t{1} << 40));
  EXPECT_THAT(ParseSize("0"), Optional(0));
}

TEST(SizeTest, RefusesWhatHasNoUnitOrIsNoWholeNumber) {
  for (const char* const text :
       {"64", "", "MiB", "-1MiB", "1.5GiB", "64 MiB", "64MB", "64M", "64mib", "9999999999TiB"}) {
    EXPECT_EQ(ParseSize(text), std::nullopt) << text;
  }
}

TEST(SizeTest, IsFormattedInTheLargestExactUnit) {
  for (const char* const text : {"2TiB", "1025GiB", "1536MiB", "64KiB", "0"}) {
    EXPECT_EQ(FormatSize(*ParseSize(text)), text);
  }
  EXPECT_EQ(FormatSize(2048 << 10), "2MiB");
}

TEST(NodesTest, TakesANumberOrARange) {
  EXPECT_EQ(ParseNodes("2")->min, 2);
  EXPECT_EQ(ParseNodes("2")->max, 2);
  EXPECT_EQ(ParseNodes("1:4")->min, 1);
  EXPECT_EQ(ParseNodes("1:4")->max, 4);
  EXPECT_EQ(FormatNodes(*ParseNodes("1:4")), "1:4");
  EXPECT_EQ(FormatNodes(*ParseNodes("3:3")), "3");
}

TEST(NodesTest, RefusesAnEmptyOrReversedRange) {
  for (const char* const text : {"", ":", "1:", ":4", "4:1", "1:2:3", "-1", "1-4", "99999999999"}) {
    EXPECT_FALSE(ParseNodes(text).has_value()) << text;
  }
}

TEST(EndpointTest, TakesNamesAddressesAndBracketedIpv6) {
  EXPECT_EQ(ParseEndpoint("node-1.lan:29400", 1, {})->host, "node-1.lan");
  EXPECT_EQ(ParseEndpoint("node-1.lan:29400", 1, {})->port, 29400);
  EXPECT_EQ(ParseEndpoint("10.0.0.1:1", 1, {})->host, "10.0.0.1");
  EXPECT_EQ(ParseEndpoint("[::1]:65535", 1, {})->host, "::1");
  EXPECT_EQ(FormatEndpoint(*ParseEndpoint("[fe80::1%eth0]:7", 1, {})), "[fe80::1%eth0]:7");
}

TEST(EndpointTest, TakesTheDefaultPortWhereThereIsOne) {
  EXPECT_EQ(ParseEndpoint("node1", 1, 29400)->port, 29400);
  EXPECT_EQ(ParseEndpoint("[::1]", 1, 29400)->port, 29400);
  EXPECT_FALSE(ParseEndpoint("node1", 1, {}).has_value());
}

TEST(EndpointTest, PortZeroIsForListenersOnly) {
  EXPECT_FALSE(ParseEndpoint("node1:0", 1, {}).has_value());
  EXPECT_EQ(ParseEndpoint("node1:0", 0, {})->port, 0);
}

TEST(EndpointTest, RefusesWhatIsNoHostAndPort) {
  for (const char* const text :
       {"", ":1", "node1:", "node1:65536", "node1:x", "node1:-1", "::1:29400", "[::1", "[]:1",
        "[::1]29400", "http://node1:1", "node 1:1", "node1:1:2", "a/b:1"}) {
    EXPECT_FALSE(ParseEndpoint(text, 0, 29400).has_value()) << text;
  }
}

TEST(AddressTest, IsAHostNameOrAnAddressAndNoEndpoint) {
  for (const char* const text : {"node1", "10.0.0.1", "::1", "fe80::1%eth0"}) {
    EXPECT_TRUE(IsAddress(text)) << text;
  }
  EXPECT_TRUE(IsAddress(std::string(255, 'a')));
  EXPECT_FALSE(IsAddress(std::string(256, 'a')));
  for (const char* const text : {"", "node1:80", "node 1", "tcp://node1", "[::1]"}) {
    EXPECT_FALSE(IsAddress(text)) << text;
  }
}

TEST(SplitCommandTest, SplitsAtWhiteSpace) {
  EXPECT_THAT(*SplitCommand("  ./train --epochs\t3\n"), ElementsAre("./train", "--epochs", "3"));
  EXPECT_THAT(*SplitCommand(" \t"), IsEmpty());
}

TEST(SplitCommandTest, QuotesKeepWordsTogether) {
  EXPECT_THAT(*SplitCommand(R"(a 'b  c' "d  e" f' 'g '')"),
              ElementsAre("a", "b  c", "d  e", "f g", ""));
  EXPECT_THAT(*SplitCommand(R"("say \"hi\" \\ \n" 'as\is')"),
              ElementsAre(R"(say "hi" \ \n)", R"(as\is)"));
}

TEST(SplitCommandTest, BackslashMakesTheNextCharacterLiteral) {
  EXPECT_THAT(*SplitCommand(R"(a\ b \' \\)"), ElementsAre("a b", "'", "\\"));
}

TEST(SplitCommandTest, ExpandsNothing) {
  EXPECT_THAT(*SplitCommand("a $HOME *.txt ~ #x ${local_rank} | b"),
              ElementsAre("a", "$HOME", "*.txt", "~", "#x", "${local_rank}", "|", "b"));
}

TEST(SplitCommandTest, RefusesAnOpenEnd) {
  for (const char* const text : {"a 'b", "a \"b", "a \\", R"("a\")"}) {
    EXPECT_FALSE(SplitCommand(text).has_value()) << text;
  }
}

TEST(NameTest, IsSafeInFileNamesAndLogLines) {
  for (const char* const text : {"none", "job_1.a", "user@host:+=-", "7"}) {
    EXPECT_TRUE(IsName(text)) << text;
  }
  EXPECT_TRUE(IsName(std::string(128, 'a')));
  EXPECT_FALSE(IsName(std::string(129, 'a')));
  for (const char* const text : {"", "..", "a/b", "a b", "-a", "a\n"}) {
    EXPECT_FALSE(IsName(text)) << text;
  }
}

TEST(SwitchTest, TakesTheUsualWords) {
  for (const char* const text : {"1", "true", "True", "YES", "on"}) {
    EXPECT_THAT(ParseSwitch(text), Optional(true)) << text;
  }
  for (const char* const text : {"0", "false", "No", "OFF"}) {
    EXPECT_THAT(ParseSwitch(text), Optional(false)) << text;
  }
  EXPECT_EQ(ParseSwitch("2"), std::nullopt);
  EXPECT_EQ(ParseSwitch(""), std::nullopt);
}

TEST(QuotedTest, EscapesControlCharactersAndCutsLongText) {
  EXPECT_EQ(Quoted("a\n\x1b"), R"("a\n\033")");
  EXPECT_EQ(Quoted(std::string(81, 'a')), "\"" + std::string(80, 'a') + "...\"");
}

}  // namespace values_test
}  // namespace ddprun
