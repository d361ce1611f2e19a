#include "launcher/torch_store/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/launcher/torch_store/requests.h"

namespace ddprun::torch_store {
namespace wire_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::string RefusalOf(Dialect dialect, const std::string& bytes) {
  const auto parsed = ParseRequest(dialect, bytes);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(GreetingTest, AValidationTellsTheNewDialectAndAnythingElseTheOldOne) {
  const auto validated = ParseGreeting(Validation() + kNew.CountKeys());
  ASSERT_TRUE(validated);
  EXPECT_EQ(validated->dialect, Dialect::kValidated);
  EXPECT_EQ(validated->size, 5U);
  for (const std::string& first :
       {kOld.Set("key", "value"), kOld.Add("init/", 1), Watch("key"), kOld.CountKeys()}) {
    const auto at_once = ParseGreeting(first);
    ASSERT_TRUE(at_once);
    EXPECT_EQ(at_once->dialect, Dialect::kAtOnce);
    EXPECT_EQ(at_once->size, 0U);
  }
}

// Break: decide by the first byte alone. Then a SET of the old dialect looks like a validation.
TEST(GreetingTest, AZeroAloneMayBecomeEither) {
  EXPECT_FALSE(ParseGreeting(""));
  EXPECT_FALSE(ParseGreeting(Byte(0)));
  EXPECT_FALSE(ParseGreeting(Validation().substr(0, 4)));
}

TEST(ParseRequestTest, KeysValuesAndNumbersComeInTheOrderOfTheWire) {
  const std::string compare = kOld.CompareSet("key", "", "new");
  const std::string two = compare + kOld.CountKeys();
  const auto compared = ParseRequest(Dialect::kAtOnce, two);
  ASSERT_TRUE(compared.ok() && *compared);
  EXPECT_EQ((*compared)->request.operation, Operation::kCompareSet);
  EXPECT_THAT((*compared)->request.texts, ElementsAre("key", "", "new"));
  EXPECT_EQ((*compared)->size, compare.size());
  const std::string add = kNew.Add("count", -3);
  const auto added = ParseRequest(Dialect::kValidated, add);
  ASSERT_TRUE(added.ok() && *added);
  EXPECT_THAT((*added)->request.texts, ElementsAre("count"));
  EXPECT_EQ((*added)->request.number, -3);
}

TEST(ParseRequestTest, AnyPartOfARequestIsIncomplete) {
  for (const std::string& whole : {MultiSet("a", "1", "b", "2"), kNew.Wait({"a", "b"}), Ping(7)}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto parsed = ParseRequest(Dialect::kValidated, whole.substr(0, size));
      ASSERT_TRUE(parsed.ok());
      EXPECT_FALSE(*parsed) << size << " bytes";
    }
    const auto parsed = ParseRequest(Dialect::kValidated, whole);
    ASSERT_TRUE(parsed.ok() && *parsed);
    EXPECT_EQ((*parsed)->size, whole.size());
  }
}

TEST(ParseRequestTest, UnknownOperationsAreRefusedByName) {
  EXPECT_EQ(RefusalOf(Dialect::kAtOnce, Byte(13)), "the unknown operation 13");
  EXPECT_EQ(RefusalOf(Dialect::kValidated, Byte(14)),
            "the operation QUEUE_PUSH of libtorch 2.7 and newer");
  EXPECT_EQ(RefusalOf(Dialect::kValidated, Byte(255)), "the unknown operation 255");
  EXPECT_EQ(RefusalOf(Dialect::kValidated, Validation()), "a second validation");
  EXPECT_EQ(RefusalOf(Dialect::kAtOnce, "GET / HTTP/1.1\r\n"), "the unknown operation 71");
}

// Break: trust the length. Then the agent allocates as much as any client says.
TEST(ParseRequestTest, LengthsAndCountsAreBoundedBeforeTheyAreUsed) {
  EXPECT_EQ(RefusalOf(Dialect::kAtOnce, kOld.Op(2) + Raw<std::uint64_t>(-1)),
            "GET with a key of 18446744073709551615 bytes; at most 65536");
  EXPECT_THAT(RefusalOf(Dialect::kAtOnce,
                        kOld.Op(0) + Text("key") + Raw<std::uint64_t>(kMaxValueBytes + 1)),
              HasSubstr("SET with a value of"));
  EXPECT_EQ(RefusalOf(Dialect::kValidated, kNew.Op(5) + Raw<std::uint64_t>(1 << 30)),
            "WAIT with 1073741824 keys; at most 131072");
}

}  // namespace wire_test
}  // namespace ddprun::torch_store
