#include <ddp/errors.h>
#include <ddp/state_dict.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/file_makers.h"
#include "tests/unit/worker/multi_rank.h"

namespace ddp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    linear = register_module("linear", torch::nn::Linear(3, 2));
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    scale = register_parameter("scale", torch::full({1}, 2.0));
    steps = register_buffer("steps", torch::tensor(5));
  }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor scale, steps;
};
TORCH_MODULE(Block);

// A module with children of these names.
std::shared_ptr<torch::nn::Module> Named(const std::vector<std::string>& names) {
  auto module = std::make_shared<torch::nn::Module>();
  for (const std::string& name : names) {
    module->register_module(name, torch::nn::Linear(1, 1));
  }
  return module;
}

StateDict With(const std::string& prefix, const StateDict& dict) {
  StateDict result;
  for (const auto& item : dict) result.insert(prefix + item.key(), item.value());
  return result;
}

bool Equal(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && torch::equal(a, b);
}

void ExpectEqual(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& item : a) {
    ASSERT_TRUE(b.contains(item.key())) << item.key();
    EXPECT_TRUE(Equal(item.value(), b[item.key()])) << item.key();
  }
}

std::string Reason(const std::string& path) {
  try {
    load_state_dict(path);
  } catch (const CheckpointError& e) {
    return e.what();
  }
  return "it is fine";
}

class StateDictTest : public ::testing::Test {
 protected:
  // All dtypes, and shapes that are easily lost.
  static StateDict Everything() {
    const torch::Tensor base = torch::arange(24, torch::kFloat32).reshape({4, 6});
    StateDict dict;
    for (const auto type :
         {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
          torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8, torch::kBool,
          torch::kComplexFloat}) {
      dict.insert(std::string("dtype.") + c10::toString(type),
                  torch::tensor({1, 0, 3}).to(type));
    }
    dict.insert("transposed", base.t());
    dict.insert("row", base[2]);
    dict.insert("every_other", base.slice(1, 1, 6, 2));
    dict.insert("expanded", torch::full({1}, 7.0).expand({3}));
    dict.insert("scalar", torch::tensor(2.5));
    dict.insert("empty", torch::empty({0, 3}));
    dict.insert("parameter", torch::ones({2}).set_requires_grad(true));
    dict.insert("conjugate", torch::view_as_complex(torch::ones({2, 2})).conj());
    return dict;
  }

  ddprun::TempDir folder_;
};

TEST_F(StateDictTest, BothFormatsReadBackWhatWasWritten) {
  for (const char* name : {"a.pt", "a.safetensors"}) {
    const StateDict dict = Everything();
    save_state_dict(dict, folder_ / name);
    const StateDict loaded = load_state_dict(folder_ / name);
    ExpectEqual(dict, loaded);
    EXPECT_FALSE(loaded["parameter"].requires_grad());
    EXPECT_THAT(loaded["row"].storage_offset(), name == std::string("a.pt") ? 12 : 0);
  }
}

TEST_F(StateDictTest, TensorsThatSharedStorageInAPyTorchFileShareItAgain) {
  save_state_dict(Everything(), folder_ / "a.pt");
  const StateDict loaded = load_state_dict(folder_ / "a.pt");
  loaded["transposed"].fill_(-1);  // they are writable
  EXPECT_TRUE(torch::equal(loaded["row"], torch::full({6}, -1.0)));
  EXPECT_EQ(loaded["transposed"].strides(), (std::vector<std::int64_t>{1, 6}));
}

TEST_F(StateDictTest, NamesAndOrderAreThoseOfPython) {
  EXPECT_THAT(state_dict(*Block()).keys(),
              ElementsAre("scale", "steps", "linear.weight", "linear.bias", "norm.weight",
                          "norm.bias", "norm.running_mean", "norm.running_var",
                          "norm.num_batches_tracked"));
}

TEST_F(StateDictTest, LoadsTorchSaveOfCpp) {
  const Block block;
  torch::save(block, folder_ / "module.pt");
  ExpectEqual(state_dict(*block), load_state_dict(folder_ / "module.pt"));
  Block other;
  load_into(*other, load_state_dict(folder_ / "module.pt"));
  ExpectEqual(state_dict(*block), state_dict(*other));

  torch::save(std::vector<torch::Tensor>{torch::ones({2}), torch::zeros({3})}, folder_ / "list.pt");
  EXPECT_THAT(load_state_dict(folder_ / "list.pt").keys(), ElementsAre("0", "1"));

  c10::Dict<std::string, torch::Tensor> dict;
  dict.insert("x", torch::ones({2}));
  const std::vector<char> bytes = torch::pickle_save(dict);
  std::ofstream(folder_ / "dict.pt", std::ios::binary).write(bytes.data(), bytes.size());
  EXPECT_TRUE(torch::equal(load_state_dict(folder_ / "dict.pt")["x"], torch::ones({2})));
}

// The same values in a file of the other byte order.
TEST_F(StateDictTest, SwapsTheBytesOfABigEndianFile) {
  StateDict dict;
  dict.insert("float", torch::tensor({1.5f, -2.0f}));
  dict.insert("complex", torch::view_as_complex(torch::tensor({{1.0, 2.0}})));
  dict.insert("byte", torch::tensor({1, 2}, torch::kUInt8));
  save_state_dict(dict, folder_ / "a.pt");
  std::string file = testing::ReadFile(folder_ / "a.pt");
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t at = file.find(from);
    ASSERT_NE(at, std::string::npos);
    file.replace(at, from.size(), to);
  };
  replace(std::string("\0\0\xc0\x3f\0\0\0\xc0", 8), std::string("\x3f\xc0\0\0\xc0\0\0\0", 8));
  replace(std::string("\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40", 16),
          std::string("\x3f\xf0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0", 16));
  const std::string little = testing::MakeZip({{"x", "little", 0, 0, 0, 0, ""}}).substr(31, 9);
  const std::size_t at = file.find("little");
  ASSERT_NE(at, std::string::npos);
  // A name of three letters less: an entry of three bytes less, and padding behind it.
  std::vector<testing::ZipItem> items;
  const auto content = [&](const std::string& text, std::size_t size) {
    return file.substr(file.find(text), size);
  };
  items.push_back({"x/data.pkl", content("\x80\x02", file.find("tRu.") + 4 - file.find("\x80\x02")),
                   0, 0, 0, 0, ""});
  items.push_back({"x/byteorder", "big", 0, 0, 0, 0, ""});
  items.push_back({"x/data/0", std::string("\x3f\xc0\0\0\xc0\0\0\0", 8), 0, 0, 0, 0, ""});
  items.push_back({"x/data/1", std::string("\x3f\xf0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0", 16), 0, 0, 0, 0, ""});
  items.push_back({"x/data/2", "\1\2", 0, 0, 0, 0, ""});
  std::ofstream(folder_ / "big.pt", std::ios::binary) << testing::MakeZip(items);
  ExpectEqual(dict, load_state_dict(folder_ / "big.pt"));
}
}  // namespace
}  // namespace ddp
