#include "worker/src/formats/safetensors_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/worker/support/file_makers.h"
#include "worker/src/formats/format_error.h"

namespace ddp::internal {
namespace safetensors_index_test {

using ::ddp::test::Little;
using ::ddp::test::MakeSafetensors;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTwo[] = R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},)"
                        R"("__metadata__":{"format":"pt"},)"
                        R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                        R"("s":{"dtype":"I64","shape":[],"data_offsets":[26,34]},)"
                        R"("e":{"dtype":"BF16","shape":[0,7],"data_offsets":[34,34]}}  )";

std::string Reason(const std::string& file) {
  try {
    IndexSafetensors(file);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "it is fine";
}

// Why a file is refused. Its header has one tensor with this text; `bytes` bytes follow the header.
std::string ReasonOf(const std::string& tensor, std::size_t bytes) {
  return Reason(MakeSafetensors("{\"t\":" + tensor + "}", std::string(bytes, 'x')));
}

TEST(SafetensorsIndexTest, FindsTensorsInTheOrderOfTheirBytes) {
  const std::string file = MakeSafetensors(kTwo, "ab" + std::string(32, 'x'));
  const TensorIndex index = IndexSafetensors(file);
  ASSERT_EQ(index.tensors.size(), 4u);
  EXPECT_EQ(index.tensors[0].name, "a");
  EXPECT_EQ(index.storages[0].bytes, "ab");
  EXPECT_EQ(index.tensors[1].name, "b");
  EXPECT_THAT(index.tensors[1].shape, ElementsAre(2, 3));
  EXPECT_THAT(index.tensors[1].strides, ElementsAre(3, 1));
  EXPECT_EQ(index.storages[1].dtype, Dtype::kF32);
  EXPECT_EQ(index.tensors[2].name, "s");
  EXPECT_TRUE(index.tensors[2].shape.empty());
  EXPECT_EQ(index.tensors[3].name, "e");
  EXPECT_THAT(index.tensors[3].shape, ElementsAre(0, 7));
  EXPECT_TRUE(IndexSafetensors(MakeSafetensors("{}", "")).tensors.empty());
}

TEST(SafetensorsIndexTest, RefusesEveryTruncationAndWhatFollowsTheEnd) {
  const std::string file = MakeSafetensors(kTwo, std::string(34, 'x'));
  for (std::size_t size = 0; size < file.size(); ++size) {
    ASSERT_NE(Reason(file.substr(0, size)), "it is fine") << size;
  }
  EXPECT_THAT(Reason(file + "x"), HasSubstr("follow its header"));
}

TEST(SafetensorsIndexTest, RefusesAHeaderOfAClaimedSize) {
  EXPECT_THAT(Reason(Little(~std::uint64_t{0}, 8) + "{}"), HasSubstr("too short"));
  EXPECT_THAT(Reason(Little(100'000'001, 8) + "{}"), HasSubstr("too short"));
  EXPECT_THAT(Reason(Little(0, 8)), HasSubstr("no safetensors"));
}

TEST(SafetensorsIndexTest, RefusesOffsetsThatDoNotFit) {
  const auto with = [](const std::string& offsets) {
    return R"({"dtype":"F32","shape":[2],"data_offsets":)" + offsets + "}";
  };
  EXPECT_EQ(ReasonOf(with("[0,8]"), 8), "it is fine");
  EXPECT_THAT(ReasonOf(with("[0,8]"), 7), HasSubstr("ends at byte 8 of 7"));
  EXPECT_THAT(ReasonOf(with("[1,9]"), 9), HasSubstr("begins at byte 1"));
  EXPECT_THAT(ReasonOf(with("[8,0]"), 8), HasSubstr("begins at byte 8"));
  EXPECT_THAT(ReasonOf(with("[0,4]"), 4), HasSubstr("reaches element 1"));
  EXPECT_THAT(ReasonOf(with("[0,9]"), 9), HasSubstr("its shape needs 8"));
  EXPECT_THAT(ReasonOf(with("[0,18446744073709551615]"), 8), HasSubstr("ends at byte"));
  EXPECT_THAT(ReasonOf(with("[0]"), 8), HasSubstr("two data_offsets"));
  EXPECT_THAT(ReasonOf(with("[0,8,8]"), 8), HasSubstr("more than two"));
  EXPECT_THAT(ReasonOf(with("[-0.0,8]"), 8), HasSubstr("does not have there"));
  const std::string overlap = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                              R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  EXPECT_THAT(Reason(MakeSafetensors(overlap, "123456")), HasSubstr("begins at byte 2"));
  const std::string gap = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                          R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  EXPECT_THAT(Reason(MakeSafetensors(gap, "123456")), HasSubstr("begins at byte 4"));
}

TEST(SafetensorsIndexTest, RefusesShapesThatCannotBe) {
  const auto with = [](const std::string& shape) {
    return R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,8]})";
  };
  EXPECT_EQ(ReasonOf(with("[1,2,1]"), 8), "it is fine");
  EXPECT_THAT(ReasonOf(with("[4611686018427387904,4]"), 8), HasSubstr("impossible"));
  EXPECT_THAT(ReasonOf(with("[9223372036854775808]"), 8), HasSubstr("impossible"));
  EXPECT_THAT(ReasonOf(with("[4294967296,4294967296,0]"), 8), HasSubstr("impossible"));
  EXPECT_THAT(ReasonOf(with("[-2]"), 8), HasSubstr("does not have there"));
  EXPECT_THAT(ReasonOf(with("[2.0]"), 8), HasSubstr("does not have there"));
  EXPECT_THAT(ReasonOf(with("[[2]]"), 8), HasSubstr("does not have there"));
  EXPECT_THAT(ReasonOf(with("2"), 8), HasSubstr("does not have there"));
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  EXPECT_THAT(ReasonOf(with(many + "]"), 8), HasSubstr("64 dimensions"));
}

TEST(SafetensorsIndexTest, RefusesWhatTheFormatDoesNotHave) {
  EXPECT_THAT(ReasonOf("1", 0), HasSubstr("does not have there"));
  EXPECT_THAT(ReasonOf("[]", 0), HasSubstr("does not have there"));
  EXPECT_THAT(ReasonOf("{}", 0), HasSubstr("lacks"));
  EXPECT_THAT(ReasonOf(R"({"dtype":"F7","shape":[],"data_offsets":[0,0]})", 0), HasSubstr("'F7'"));
  EXPECT_THAT(ReasonOf(R"({"code":"x"})", 0), HasSubstr("unknown field 'code'"));
  EXPECT_THAT(ReasonOf(R"({"dtype":{"a":1}})", 0), HasSubstr("does not have there"));
  EXPECT_THAT(Reason(MakeSafetensors(R"({"__metadata__":{"a":1}})", "")),
              HasSubstr("does not have there"));
  EXPECT_THAT(Reason(MakeSafetensors(R"({"__metadata__":{"a":{}}})", "")),
              HasSubstr("does not have there"));
  EXPECT_THAT(Reason(MakeSafetensors("{\"a\":nope}", "")), HasSubstr("not JSON at byte"));
  EXPECT_THAT(Reason(MakeSafetensors("{} {}", "")), HasSubstr("not JSON at byte"));
  // Deep nesting is refused at the first bracket.
  EXPECT_THAT(ReasonOf(std::string(1 << 20, '['), 0), HasSubstr("does not have there"));
}

TEST(SafetensorsIndexTest, RefusesWhatIsThereTwice) {
  const std::string tensor = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(Reason(MakeSafetensors("{\"a\":" + tensor + ",\"a\":" + tensor + "}", "x")),
              HasSubstr("tensor 'a' is there twice"));
  EXPECT_THAT(Reason(MakeSafetensors(R"({"__metadata__":{"k":"1","k":"2"}})", "")),
              HasSubstr("metadata 'k' is there twice"));
  EXPECT_THAT(Reason(MakeSafetensors(R"({"__metadata__":{},"__metadata__":{}})", "")),
              HasSubstr("twice"));
  EXPECT_THAT(ReasonOf(R"({"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]})", 1),
              HasSubstr("has shape twice"));
}

}  // namespace safetensors_index_test
}  // namespace ddp::internal
