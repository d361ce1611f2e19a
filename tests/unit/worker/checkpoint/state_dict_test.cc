#include <ddp/errors.h>
#include <ddp/state_dict.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/disk.h"
#include "tests/unit/worker/support/file_makers.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "worker/src/formats/tensor_index.h"
#include "worker/src/formats/torch_archive.h"

namespace ddp {
namespace state_dict_test {

using ::testing::AllOf;
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
  // All dtypes, and unusual shapes.
  static StateDict Everything() {
    const torch::Tensor base = torch::arange(24, torch::kFloat32).reshape({4, 6});
    StateDict dict;
    for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16,
                            torch::kInt64, torch::kInt32, torch::kInt16, torch::kInt8,
                            torch::kUInt8, torch::kBool, torch::kComplexFloat}) {
      dict.insert(std::string("dtype.") + c10::toString(type), torch::tensor({1, 0, 3}).to(type));
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

  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  static test::ZipItem Item(const std::string& name, const std::string& content) {
    test::ZipItem item;
    item.name = name;
    item.content = content;
    return item;
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
  loaded["transposed"].fill_(-1);  // the loaded tensors are writable
  EXPECT_TRUE(torch::equal(loaded["row"], torch::full({6}, -1.0)));
  EXPECT_EQ(loaded["transposed"].strides(), (std::vector<std::int64_t>{1, 6}));
}

TEST_F(StateDictTest, NamesAndOrderAreThoseOfPython) {
  EXPECT_THAT(
      state_dict(*Block()).keys(),
      ElementsAre("scale", "steps", "linear.weight", "linear.bias", "norm.weight", "norm.bias",
                  "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
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

// Bytes written by a machine of the other byte order.
TEST_F(StateDictTest, SwapsTheBytesOfABigEndianFile) {
  const std::string floats("\x3f\xc0\0\0\xc0\0\0\0", 8);   // 1.5, -2
  const std::string complex("\x3f\x80\0\0\x40\0\0\0", 8);  // 1 + 2i
  const std::string long_("\0\0\0\0\0\0\1\2", 8);          // 258
  internal::TensorIndex index;
  index.storages = {{floats, internal::Dtype::kF32},
                    {complex, internal::Dtype::kC64},
                    {long_, internal::Dtype::kI64}};
  index.tensors = {{"float", 0, 0, {2}, {1}}, {"complex", 1, 0, {1}, {1}}, {"long", 2, 0, {}, {}}};
  Write("big.pt", test::MakeZip({Item("x/data.pkl", internal::WriteTorchPickle(index)),
                                 Item("x/byteorder", "big"), Item("x/data/0", floats),
                                 Item("x/data/1", complex), Item("x/data/2", long_)}));
  const StateDict loaded = load_state_dict(folder_ / "big.pt");
  EXPECT_TRUE(torch::equal(loaded["float"], torch::tensor({1.5f, -2.0f})));
  EXPECT_TRUE(torch::equal(torch::view_as_real(loaded["complex"]), torch::tensor({{1.0f, 2.0f}})));
  EXPECT_EQ(loaded["long"].item<std::int64_t>(), 258);
}

TEST_F(StateDictTest, ABoolIsZeroOrOneWhateverTheFileSays) {
  Write("a.safetensors",
        test::MakeSafetensors(R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})",
                              std::string("\x00\x02\xff", 3)));
  const torch::Tensor loaded = load_state_dict(folder_ / "a.safetensors")["b"];
  EXPECT_TRUE(torch::equal(loaded.view(torch::kUInt8), torch::tensor({0, 1, 1}, torch::kUInt8)));
}

TEST_F(StateDictTest, LoadsIntoAModuleInPlace) {
  const Block from;
  torch::NoGradGuard no_grad;
  from->linear->weight.fill_(3);
  from->norm->running_var.fill_(4);
  save_state_dict(state_dict(*from), folder_ / "a.pt");
  Block into;
  const void* const place = into->linear->weight.data_ptr();
  const IncompatibleKeys keys = load_into(*into, load_state_dict(folder_ / "a.pt"));
  EXPECT_THAT(keys.missing, IsEmpty());
  EXPECT_THAT(keys.unexpected, IsEmpty());
  EXPECT_EQ(into->linear->weight.data_ptr(), place);
  EXPECT_TRUE(into->linear->weight.requires_grad());
  ExpectEqual(state_dict(*from), state_dict(*into));
}

TEST_F(StateDictTest, ConvertsToTheModulesDtype) {
  const Block from;
  Block into;
  into->to(torch::kFloat64);
  load_into(*into, state_dict(*from));
  EXPECT_TRUE(torch::equal(into->linear->weight, from->linear->weight.to(torch::kFloat64)));
}

TEST_F(StateDictTest, DropsTheWrappersPrefixWhereAllNamesHaveIt) {
  const Block from;
  Block into;
  load_into(*into, With("module.", state_dict(*from)));
  ExpectEqual(state_dict(*from), state_dict(*into));
  EXPECT_THROW(load_into(*into, With("my_module.", state_dict(*from))), StateDictMismatch);
  EXPECT_THROW(load_into(*into, With("module.module.", state_dict(*from))), StateDictMismatch);
}

TEST_F(StateDictTest, KeepsThePrefixWhereItBelongsToTheModel) {
  const auto same = [](const std::vector<std::string>& names) {
    const auto from = Named(names);
    const auto into = Named(names);
    load_into(*into, state_dict(*from));
    ExpectEqual(state_dict(*from), state_dict(*into));
  };
  same({"my_module"});
  same({"module"});
  same({"module", "my_module"});
  // Names with the wrapper's prefix, and a child with the wrapper's name.
  const auto wrapped = Named({"module", "other"});
  const auto into = Named({"module", "other"});
  load_into(*into, With("module.", state_dict(*wrapped)));
  ExpectEqual(state_dict(*wrapped), state_dict(*into));
}

TEST_F(StateDictTest, AMismatchNamesAllThatDoesNotFitAndChangesNothing) {
  Block block;
  const torch::Tensor before = block->linear->weight.clone();
  StateDict dict;
  for (const auto& item : state_dict(*block)) {
    if (item.key() == "norm.bias" || item.key() == "steps") continue;
    dict.insert(item.key(), item.key() == "scale" ? torch::ones({2, 3}) : item.value() + 1);
  }
  dict.insert("extra", torch::ones({1}));
  dict.insert("more", torch::ones({1}));
  for (const bool strict : {true, false}) {
    try {
      load_into(*block, dict, strict);
      ADD_FAILURE() << "no error";
    } catch (const StateDictMismatch& e) {
      EXPECT_THAT(e.missing(), ElementsAre("steps", "norm.bias"));
      EXPECT_THAT(e.unexpected(), ElementsAre("extra", "more"));
      EXPECT_THAT(e.wrong_shape(), ElementsAre("scale"));
      EXPECT_STREQ(e.what(),
                   "the state_dict does not fit the model; 2 missing from it: steps, norm.bias; "
                   "2 unexpected, the model has no such: extra, more; "
                   "1 of the wrong shape: scale is [2, 3], the model has [1]");
    }
  }
  EXPECT_TRUE(torch::equal(block->linear->weight, before));
}

TEST_F(StateDictTest, AMismatchOfThousandsIsAMessageThatCanBeRead) {
  StateDict dict;
  for (int i = 0; i < 5000; ++i) dict.insert("name" + std::to_string(i), torch::ones({1}));
  try {
    load_into(*Block(), dict);
    ADD_FAILURE() << "no error";
  } catch (const StateDictMismatch& e) {
    EXPECT_EQ(e.unexpected().size(), 5000u);
    EXPECT_THAT(e.what(), HasSubstr("name49 and 4950 more"));
    EXPECT_THAT(e.what(), Not(HasSubstr("name50,")));
  }
}

TEST_F(StateDictTest, NotStrictLoadsWhatIsThere) {
  Block block;
  StateDict dict;
  dict.insert("scale", torch::full({1}, 9.0));
  dict.insert("extra", torch::ones({1}));
  const IncompatibleKeys keys = load_into(*block, dict, /*strict=*/false);
  EXPECT_EQ(block->scale.item<float>(), 9);
  EXPECT_EQ(keys.missing.size(), 8u);
  EXPECT_THAT(keys.unexpected, ElementsAre("extra"));
}

TEST_F(StateDictTest, APartOfADictByItsPrefix) {
  EXPECT_THAT(with_prefix(With("model.", state_dict(*Named({"a"}))), "model.").keys(),
              ElementsAre("a.weight", "a.bias"));
}

TEST_F(StateDictTest, RefusesTensorsThatAFileCannotHold) {
  const auto reason = [&](const torch::Tensor& tensor, const char* name) {
    StateDict dict;
    dict.insert("t", tensor);
    try {
      save_state_dict(dict, folder_ / name);
    } catch (const CheckpointError& e) {
      return std::string(e.what());
    }
    return std::string("it is fine");
  };
  EXPECT_THAT(reason(torch::ones({2, 2}).to_sparse(), "a.pt"), HasSubstr("'t' is sparse"));
  EXPECT_THAT(reason(torch::Tensor(), "a.pt"), HasSubstr("'t' is undefined"));
  EXPECT_THAT(reason(torch::ones({1}, torch::kComplexDouble), "a.safetensors"),
              HasSubstr("complex128"));
  EXPECT_EQ(reason(torch::ones({1}, torch::kComplexDouble), "a.pt"), "it is fine");
  EXPECT_THAT(test::FilesIn(folder_.path()), ElementsAre("a.pt"));
}

TEST_F(StateDictTest, AFullDiskIsAnErrorAndLeavesNothing) {
  StateDict dict;
  dict.insert("t", torch::ones({1 << 20}));
  struct rlimit old = {};
  getrlimit(RLIMIT_FSIZE, &old);
  const struct rlimit small = {1 << 16, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string problem;
  try {
    save_state_dict(dict, folder_ / "a.pt");
  } catch (const CheckpointError& e) {
    problem = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(problem, HasSubstr("cannot write"));
  EXPECT_THAT(test::FilesIn(folder_.path()), IsEmpty());
}

TEST_F(StateDictTest, AnErrorNamesTheFile) {
  EXPECT_THAT(Reason(folder_ / "none"), HasSubstr(folder_ / "none: cannot open it"));
  EXPECT_THAT(Reason(folder_.path()), HasSubstr("not a regular file"));
  Write("empty", "");
  EXPECT_THAT(Reason(folder_ / "empty"), HasSubstr("neither"));
}

// A lost disk block in the middle of the tensors. Seen red when the file was mapped: SIGBUS then
// ends the process on a real disk. Here the error of the fake disk had no effect.
TEST_F(StateDictTest, AnErrorOfTheDiskIsAnErrorThatNamesTheBytes) {
  const StateDict dict = {{"weight", torch::arange(100'000, torch::kFloat32)}};
  for (const std::string name : {"a.pt", "a.safetensors"}) {
    save_state_dict(dict, folder_ / name);
    const test::WatchedDisk disk(folder_.path());
    disk.FailReads(name, EIO, 200'000);
    EXPECT_THAT(Reason(folder_ / name), AllOf(HasSubstr("cannot load " + (folder_ / name) +
                                                        ": cannot read its bytes 0 to "),
                                              HasSubstr("Input/output error")));
    disk.FailReads(name, 0);
    ExpectEqual(load_state_dict(folder_ / name), dict);
  }
}

}  // namespace state_dict_test
}  // namespace ddp
