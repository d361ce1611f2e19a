#include "worker/src/formats/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <string_view>

#include "tests/unit/worker/support/file_makers.h"
#include "worker/src/formats/format_error.h"

namespace ddp::internal {
namespace pickle_reader_test {

using ::ddp::test::Little;
using ::testing::HasSubstr;
using Kind = Pickle::Kind;

constexpr std::int64_t kKnown = 7;

std::int64_t Resolve(std::string_view module, std::string_view name) {
  return module == "known" && name == "Thing" ? kKnown : -1;
}

std::string Reason(const std::string& bytes) {
  try {
    const Pickle pickle(bytes, Resolve);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "it is fine";
}

TEST(PickleReaderTest, ReadsWhatPythonWritesForPlainValues) {
  // pickle.dumps({'a': [1, -2, 300], 'b': (True, None, 1.5), 'c': 2**40}, 2)
  const std::string bytes = std::string(
      "\x80\x02}q\x00(X\x01\x00\x00\x00"
      "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01"
      "eX\x01\x00\x00\x00"
      "bq\x03\x88NG?\xf8\x00\x00\x00\x00\x00\x00\x87q\x04X\x01\x00\x00\x00"
      "cq\x05\x8a\x06\x00\x00\x00\x00\x00\x01u.",
      69);
  const Pickle pickle(bytes, Resolve);
  ASSERT_EQ(pickle.root().kind, Kind::kDict);
  const auto items = pickle.items(pickle.root());
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[0].text, "a");
  ASSERT_EQ(items[1].kind, Kind::kList);
  const auto list = pickle.items(items[1]);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].number, 1);
  EXPECT_EQ(list[1].number, -2);
  EXPECT_EQ(list[2].number, 300);
  const auto tuple = pickle.items(items[3]);
  ASSERT_EQ(tuple.size(), 3u);
  EXPECT_EQ(tuple[0].kind, Kind::kBool);
  EXPECT_EQ(tuple[1].kind, Kind::kNone);
  EXPECT_EQ(tuple[2].kind, Kind::kOther);
  EXPECT_EQ(items[5].number, std::int64_t{1} << 40);
}

TEST(PickleReaderTest, ReadsProtocol4) {
  // pickle.dumps({'a': 1}, 4), with a global named by STACK_GLOBAL
  const std::string bytes = std::string("\x80\x04\x95", 3) + Little(20, 8) +
                            "}\x94\x8c\x01"
                            "a\x94\x8c\x05known\x94\x8c\x05Thing\x93\x94s.";
  const Pickle pickle(bytes, Resolve);
  const auto items = pickle.items(pickle.root());
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].kind, Kind::kGlobal);
  EXPECT_EQ(items[1].number, kKnown);
}

TEST(PickleReaderTest, ACallIsANodeAndNothingIsCalled) {
  const std::string bytes =
      "\x80\x02"
      "cknown\nThing\n(K\x05tR}X\x01" +
      std::string(3, '\0') + "kK\x06sb.";
  const Pickle pickle(bytes, Resolve);
  ASSERT_EQ(pickle.root().kind, Kind::kCall);
  EXPECT_EQ(pickle.callee(pickle.root()), kKnown);
  ASSERT_EQ(pickle.arguments(pickle.root()).size(), 1u);
  EXPECT_EQ(pickle.arguments(pickle.root())[0].number, 5);
  ASSERT_EQ(pickle.state(pickle.root()).size(), 2u);
  EXPECT_EQ(pickle.state(pickle.root())[1].number, 6);
}

TEST(PickleReaderTest, RefusesEveryNameThatIsNotAllowed) {
  // pickle.dumps of an object whose __reduce__ gives (os.system, ("true",))
  EXPECT_THAT(Reason("\x80\x02"
                     "cposix\nsystem\n(X\x04" +
                     std::string(3, '\0') + "truetR."),
              HasSubstr("'posix.system'"));
  EXPECT_THAT(Reason("\x80\x04\x8c\x08"
                     "builtins\x8c\x04"
                     "eval\x93."),
              HasSubstr("'builtins.eval'"));
  EXPECT_THAT(Reason("\x80\x02"
                     "cknown\nThing.__init__\n."),
              HasSubstr("Thing.__init__"));
  EXPECT_THAT(Reason("\x80\x02(ios\nsystem\n."), HasSubstr("instruction, 105"));  // INST
  EXPECT_THAT(Reason("\x80\x02\x82\x01."), HasSubstr("instruction, 130"));        // EXT1
}

TEST(PickleReaderTest, RefusesToCallWhatIsNoGlobal) {
  EXPECT_THAT(Reason("\x80\x02X\x01" + std::string(3, '\0') + "a)R."), HasSubstr("no function"));
  EXPECT_THAT(Reason("\x80\x02"
                     "cknown\nThing\n)R)R."),
              HasSubstr("no function"));
  EXPECT_THAT(Reason("\x80\x02"
                     "cknown\nThing\nK\x01R."),
              HasSubstr("no function"));
}

TEST(PickleReaderTest, RefusesWhatIsOutOfReach) {
  EXPECT_THAT(Reason(""), HasSubstr("cut short"));
  EXPECT_THAT(Reason("\x80"), HasSubstr("cut short"));
  EXPECT_THAT(Reason("\x80\x02."), HasSubstr("left over"));
  EXPECT_THAT(Reason("\x80\x02NN."), HasSubstr("left over"));
  EXPECT_THAT(Reason("\x80\x02(N."), HasSubstr("left over"));
  EXPECT_THAT(Reason("\x80\x02t."), HasSubstr("mark"));
  EXPECT_THAT(Reason("\x80\x02N\x86."), HasSubstr("not there"));
  EXPECT_THAT(Reason("\x80\x02]Na(a."), HasSubstr("not there"));  // would reach across a mark
  EXPECT_THAT(Reason("\x80\x02h\x01."), HasSubstr("not there"));
  EXPECT_THAT(Reason("\x80\x02NNs."), HasSubstr("not there"));
  EXPECT_THAT(Reason("\x80\x02NNa."), HasSubstr("has none"));
  EXPECT_THAT(Reason("\x80\x02}(Nu."), HasSubstr("key without"));
  EXPECT_THAT(Reason("\x80\x02}}b."), HasSubstr("has none"));
  EXPECT_THAT(Reason("\x80\x07N."), HasSubstr("protocol"));
}

long PeakKib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Each of these pickles has a few bytes and asks for more memory than the machine has.
TEST(PickleReaderTest, AllocatesNothingBecauseOfAClaim) {
  const long before = PeakKib();
  EXPECT_THAT(Reason("\x80\x02X\xff\xff\xff\xff"
                     "a."),
              HasSubstr("cut short"));
  EXPECT_THAT(Reason("\x80\x04\x8d" + Little(std::uint64_t{1} << 62, 8) + "a."),
              HasSubstr("cut short"));
  EXPECT_THAT(Reason("\x80\x02"
                     "B\xff\xff\xff\xff."),
              HasSubstr("cut short"));
  EXPECT_THAT(Reason("\x80\x02Nr\xff\xff\xff\xff."), HasSubstr("out of order"));
  EXPECT_LT(PeakKib() - before, 16 * 1024);
}

TEST(PickleReaderTest, RefusesMoreThanAnyStateDictNeeds) {
  const auto reason = [](char instruction) {
    return Reason("\x80\x02" + std::string(std::size_t{5} << 20, instruction) + ".");
  };
  EXPECT_THAT(reason('N'), HasSubstr("more memory"));  // the stack
  EXPECT_THAT(reason('('), HasSubstr("more memory"));
  EXPECT_THAT(reason(']'), HasSubstr("more memory"));
  // A list in a list in a list ...: its destruction must not recurse.
  EXPECT_THAT(
      Reason("\x80\x02" + std::string(1 << 19, ']') + std::string((1 << 19) - 1, 'a') + "."),
      HasSubstr("it is fine"));
  EXPECT_THAT(Reason("\x80\x02" + std::string((std::size_t{64} << 20) + 1, 'N')),
              HasSubstr("64 MiB"));
}

}  // namespace pickle_reader_test
}  // namespace ddp::internal
