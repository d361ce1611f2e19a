#include "worker/src/formats/torch_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/worker/support/file_makers.h"
#include "worker/src/formats/format_error.h"

namespace ddp::internal {
namespace torch_archive_test {

using ::ddp::test::Little;
using ::ddp::test::MakeZip;
using ::ddp::test::ZipItem;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kBytes = "0123456789abcdef01234567";  // of every storage: 6 floats

std::string_view AllStorages(std::string_view) { return kBytes; }

std::string Text(const std::string& text) { return "X" + Little(text.size(), 4) + text; }
std::string Integer(std::int64_t value) {
  return "\x8a\x08" + Little(static_cast<std::uint64_t>(value), 8);
}
std::string Tuple(const std::vector<std::int64_t>& values) {
  std::string text = "(";
  for (const std::int64_t value : values) text += Integer(value);
  return text + "t";
}
std::string Storage(const std::string& type = "torch\nFloatStorage", std::int64_t elements = 6,
                    const std::string& key = "0", const std::string& device = "cpu") {
  return "(" + Text("storage") + "c" + type + "\n" + Text(key) + Text(device) + Integer(elements) +
         "tQ";
}
std::string Tensor(const std::string& storage, std::int64_t offset,
                   const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
                   const std::string& more = "") {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + Integer(offset) + Tuple(shape) +
         Tuple(strides) + "\x89}" + more + "tR";
}
std::string Dict(const std::string& items) { return "\x80\x02}(" + items + "u."; }
std::string WithTensor(const std::string& tensor) { return Dict(Text("t") + tensor); }

TensorIndex Index(const std::string& pickle) { return IndexTorchPickle(pickle, AllStorages); }

std::string Reason(const std::string& pickle) {
  try {
    Index(pickle);
  } catch (const FormatError& e) {
    return e.what();
  }
  return "it is fine";
}

std::vector<std::string> Names(const TensorIndex& index) {
  std::vector<std::string> names;
  for (const TensorView& tensor : index.tensors) names.push_back(tensor.name);
  return names;
}

TEST(TorchArchiveTest, ReadsViewsOfOneStorage) {
  const TensorIndex index =
      Index(Dict(Text("whole") + Tensor(Storage(), 0, {2, 3}, {3, 1}) + Text("transposed") +
                 Tensor(Storage(), 0, {3, 2}, {1, 3}) + Text("row") +
                 Tensor(Storage(), 3, {3}, {1}) + Text("scalar") + Tensor(Storage(), 5, {}, {}) +
                 Text("empty") + Tensor(Storage(), 6, {0, 4}, {4, 1})));
  EXPECT_THAT(Names(index), ElementsAre("whole", "transposed", "row", "scalar", "empty"));
  ASSERT_EQ(index.storages.size(), 1u);
  EXPECT_EQ(index.storages[0].bytes, kBytes);
  EXPECT_THAT(index.tensors[1].strides, ElementsAre(1, 3));
  EXPECT_EQ(index.tensors[2].offset, 3);
}

TEST(TorchArchiveTest, TheDeviceDoesNotMatter) {
  const TensorIndex index =
      Index(WithTensor(Tensor(Storage("torch.cuda\nFloatStorage", 6, "0", "cuda:3"), 0, {6}, {1})));
  EXPECT_EQ(index.storages[0].dtype, Dtype::kF32);
}

TEST(TorchArchiveTest, WrapsAndNestsNames) {
  const std::string tensor = Tensor(Storage(), 0, {6}, {1});
  const std::string parameter = "ctorch._utils\n_rebuild_parameter\n(" + tensor + "\x88}tR";
  const TensorIndex index =
      Index(Dict(Text("model") + "}(" + Text("w") + parameter + Text("n") + Integer(3) + "u" +
                 Text("list") + "](" + tensor + "N" + tensor + "e" + Integer(7) + tensor +
                 Text("epoch") + Integer(3) + Text("none") + "N"));
  EXPECT_THAT(Names(index), ElementsAre("model.w", "list.0", "list.2", "7"));
}

TEST(TorchArchiveTest, WhatIsWrittenReadsBackEqual) {
  TensorIndex index;
  for (const DtypeInfo& info : kDtypes) {
    index.storages.push_back({kBytes, info.dtype});
    const auto elements = static_cast<std::int64_t>(kBytes.size() / info.size);
    index.tensors.push_back({std::string(info.torch_object),
                             index.storages.size() - 1,
                             elements % 3,
                             {elements / 3, 1},
                             {2, 300}});
  }
  std::vector<ZipItem> items = {{"x/data.pkl", WriteTorchPickle(index), 0, 0, 0, 0, ""}};
  for (std::size_t i = 0; i < index.storages.size(); ++i) {
    items.push_back({"x/data/" + std::to_string(i), std::string(kBytes), 0, 0, 0, 0, ""});
  }
  const std::string file = MakeZip(items);
  const TensorIndex read = IndexTensorFile(file);
  ASSERT_EQ(read.tensors.size(), index.tensors.size());
  for (std::size_t i = 0; i < read.tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].name, index.tensors[i].name);
    EXPECT_EQ(read.tensors[i].offset, index.tensors[i].offset);
    EXPECT_EQ(read.tensors[i].shape, index.tensors[i].shape);
    EXPECT_EQ(read.tensors[i].strides, index.tensors[i].strides);
    EXPECT_EQ(read.storages[read.tensors[i].storage].dtype, index.storages[i].dtype);
    EXPECT_EQ(read.storages[read.tensors[i].storage].bytes, kBytes);
  }
  EXPECT_FALSE(read.big_endian);
  items.push_back({"x/byteorder", "big", 0, 0, 0, 0, ""});
  EXPECT_TRUE(IndexTensorFile(MakeZip(items)).big_endian);
  items.back().content = "middle";
  EXPECT_THROW(IndexTensorFile(MakeZip(items)), FormatError);
}

TEST(TorchArchiveTest, RefusesViewsThatLeaveTheirStorage) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(Reason(WithTensor(Tensor(Storage(), 0, {2, 3}, {3, 1}))), "it is fine");
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 1, {2, 3}, {3, 1}))), HasSubstr("element 6"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 6, {}, {}))), HasSubstr("element 6"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 7, {0}, {1}))), HasSubstr("outside"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), -1, {2}, {1}))), HasSubstr("before"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 5, {2}, {-1}))), HasSubstr("negative stride"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 0, {-1}, {1}))), HasSubstr("negative extent"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 0, {2}, {}))), HasSubstr("0 strides"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 0, {kHuge, 4}, {0, 0}))),
              HasSubstr("impossible"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 0, {5}, {kHuge}))), HasSubstr("impossible"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), kHuge - 1 + kHuge, {2}, {1}))),
              HasSubstr("impossible"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 0, {0, kHuge}, {0, 0}))),
              HasSubstr("impossible"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 0, std::vector<std::int64_t>(65, 1),
                                       std::vector<std::int64_t>(65, 1)))),
              HasSubstr("no shape"));
}

TEST(TorchArchiveTest, RefusesStoragesThatAreNotThere) {
  const auto with = [](const std::string& storage) {
    return Reason(WithTensor(Tensor(storage, 0, {1}, {1})));
  };
  EXPECT_EQ(with(Storage()), "it is fine");
  EXPECT_THAT(with(Storage("torch\nFloatStorage", 7)), HasSubstr("has only 24"));
  EXPECT_THAT(with(Storage("torch\nFloatStorage", std::int64_t{1} << 62)), HasSubstr("impossible"));
  EXPECT_THAT(with(Storage("torch\nFloatStorage", -1)), HasSubstr("not described"));
  EXPECT_THAT(with(Storage("torch\nfloat32")), HasSubstr("without a known dtype"));
  EXPECT_THAT(with(Storage("torch.storage\nUntypedStorage")), HasSubstr("no dtype"));
  EXPECT_THAT(with("NQ"), HasSubstr("not described"));
  EXPECT_THAT(with("N"), HasSubstr("no storage"));
  EXPECT_THAT(Reason(Dict(Text("a") + Tensor(Storage(), 0, {1}, {1}) + Text("b") +
                          Tensor(Storage("torch\nIntStorage"), 0, {1}, {1}))),
              HasSubstr("of another dtype"));
  const std::string file =
      MakeZip({{"x/data.pkl", WithTensor(Tensor(Storage(), 0, {1}, {1})), 0, 0, 0, 0, ""}});
  EXPECT_THROW(IndexTensorFile(file), FormatError);  // no x/data/0
}

TEST(TorchArchiveTest, RefusesWhatIsNoStateDict) {
  const std::string tensor = Tensor(Storage(), 0, {1}, {1});
  EXPECT_THAT(Reason("\x80\x02" + tensor + "."), HasSubstr("a tensor, not a state_dict"));
  EXPECT_THAT(Reason("\x80\x02" + Text("hello") + "."), HasSubstr("does not hold"));
  EXPECT_THAT(Reason(Dict(Text("a") + tensor + Text("a") + tensor)), HasSubstr("twice"));
  EXPECT_THAT(Reason(Dict("N" + tensor)), HasSubstr("keys"));
  EXPECT_THAT(Reason(Dict(Text(std::string(5000, 'n')) + tensor)), HasSubstr("too long names"));
  EXPECT_THAT(Reason(WithTensor(Tensor(Storage(), 0, {1}, {1}, "}(" + Text("conj") + "\x88u"))),
              HasSubstr("resolve_conj"));
  EXPECT_THAT(Reason(WithTensor("ctorch._utils\n_rebuild_tensor_v2\n)R")),
              HasSubstr("0 arguments"));
  EXPECT_THAT(Reason(WithTensor("ctorch._utils\n_rebuild_parameter\n)R")), HasSubstr("not made"));
  EXPECT_THAT(Reason(WithTensor("ctorch._utils\n_rebuild_qtensor\n)R")),
              HasSubstr("'torch._utils._rebuild_qtensor'"));
  EXPECT_THAT(Reason(WithTensor("ctorch._utils\n_rebuild_sparse_tensor\n)R")), HasSubstr("sparse"));
  EXPECT_THAT(Reason(WithTensor("ctorch\nload\n)R")), HasSubstr("'torch.load'"));
  EXPECT_THAT(Reason(WithTensor("ctorch._utils\nexec\n)R")), HasSubstr("'torch._utils.exec'"));
}

// A few bytes that stand for 2^60 tensors, or contain themselves.
TEST(TorchArchiveTest, RefusesThingsInsideOfThemselves) {
  std::string bomb = "\x80\x02](" + Tensor(Storage(), 0, {1}, {1}) + "eq" + std::string(1, '\0');
  for (char i = 0; i < 60; ++i) {
    bomb += std::string("0](h") + i + "h" + i + "eq" + static_cast<char>(i + 1);
  }
  EXPECT_THAT(Reason(bomb + "."), AnyOf(HasSubstr("too often"), HasSubstr("too long names"),
                                        HasSubstr("too many tensors")));
  const std::string loop = "\x80\x02]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a.";
  EXPECT_THAT(Reason(loop), HasSubstr("refers too often"));
  EXPECT_THAT(Reason("\x80\x02" + std::string(100, ']') + std::string(99, 'a') + "."),
              HasSubstr("nested too deep"));
}

// The dict has a thousand names for one inner dict. The inner dict has a thousand names for one
// tensor.
TEST(TorchArchiveTest, RefusesAFewBytesThatStandForAMillionTensors) {
  const auto number = [](int i) { return Text(std::to_string(i)); };
  std::string inner = "}(";
  for (int i = 0; i < 1000; ++i) {
    inner += number(i) + (i == 0 ? Tensor(Storage(), 0, {1}, {1}) + "q" + std::string(1, '\0')
                                 : "h" + std::string(1, '\0'));
  }
  std::string outer;
  for (int i = 0; i < 1000; ++i) {
    outer +=
        number(i) + (i == 0 ? inner + "uq" + std::string(1, '\1') : "h" + std::string(1, '\1'));
  }
  EXPECT_THAT(Reason(Dict(outer)), AnyOf(HasSubstr("too often"), HasSubstr("too many tensors")));
  const std::string padding = "X" + std::string("\0\0\x20\0", 4) + std::string(2 << 20, 'x') + "0";
  EXPECT_THAT(Reason("\x80\x02" + padding + "}(" + outer + "u."), HasSubstr("too many tensors"));
}

TEST(TorchArchiveTest, RefusesOtherFilesWithTheReason) {
  const auto reason = [](const std::string& file) {
    try {
      IndexTensorFile(file);
    } catch (const FormatError& e) {
      return std::string(e.what());
    }
    return std::string("it is fine");
  };
  EXPECT_THAT(reason(""), HasSubstr("neither"));
  EXPECT_THAT(reason("\x7f"
                     "ELF and so on"),
              HasSubstr("neither"));
  EXPECT_THAT(reason("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M"),
              HasSubstr("before PyTorch 1.6"));
  EXPECT_THAT(reason(MakeZip({{"x/other", "", 0, 0, 0, 0, ""}})), HasSubstr("x/data.pkl"));
}

}  // namespace torch_archive_test
}  // namespace ddp::internal
