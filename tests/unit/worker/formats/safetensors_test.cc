#include "worker/src/formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/disk.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "tests/unit/worker/support/newest_checkpoint.h"
#include "worker/src/storage/durable_file.h"

namespace ddp::internal {
namespace safetensors_test {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Reads the file and checks all hashes.
SafetensorsFile OpenAndVerify(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::Open(path);
  test::Verify(file);
  return file;
}

bool IsDamaged(const std::string& path) {
  try {
    OpenAndVerify(path);
  } catch (const DamagedError&) {
    return true;
  } catch (const FormatError&) {
  }
  return false;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest() {
    std::vector<TensorBytes> tensors = {{{"model.odd", "U8", {3}}, bytes_, sizeof(bytes_)},
                                        {{"model.weight", "F32", {2, 2}}, floats_, sizeof(floats_)},
                                        {{"optim.0.step", "I64", {}}, &step_, sizeof(step_)},
                                        {{"model.none", "F32", {0, 4}}, floats_, 0}};
    Write(&tensors);
    whole_ = test::ReadFile(path());
  }

  void Write(std::vector<TensorBytes>* tensors) const {
    const std::string header = BuildHeader(tensors, {{"step", "7"}});
    std::vector<std::string_view> pieces = {header};
    for (const TensorBytes& tensor : *tensors) {
      pieces.emplace_back(static_cast<const char*>(tensor.data), tensor.size);
    }
    WriteDurably(folder_.path(), "f", pieces);
  }

  std::string path() const { return folder_ / "f"; }

  void Rewrite(const std::string& content) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << content;
  }

  // Why the file cannot be opened.
  std::string Reason(SafetensorsFile (*open)(const std::string&) = OpenAndVerify) const {
    try {
      open(path());
    } catch (const FormatError& e) {
      return e.what();
    }
    return "it is fine";
  }

  ddprun::TempDir folder_;
  const unsigned char bytes_[3] = {1, 2, 3};
  const float floats_[4] = {1.5f, -2, 3, 4};
  const std::int64_t step_ = 12;
  std::string whole_;
};

TEST_F(SafetensorsTest, ReadsBackWhatWasWritten) {
  const SafetensorsFile file = OpenAndVerify(path());
  EXPECT_EQ(file.metadata().at("step"), "7");
  ASSERT_EQ(file.tensors().size(), 4u);
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string content = test::Content(file, tensor);
    if (tensor.info.name == "model.weight") {
      EXPECT_EQ(tensor.info.shape, (std::vector<std::int64_t>{2, 2}));
      EXPECT_EQ(std::memcmp(content.data(), floats_, sizeof(floats_)), 0);
    } else if (tensor.info.name == "optim.0.step") {
      EXPECT_TRUE(tensor.info.shape.empty());
      EXPECT_EQ(std::memcmp(content.data(), &step_, sizeof(step_)), 0);
    }
    EXPECT_EQ(tensor.offset % DtypeSize(tensor.info.dtype), 0u);
  }
}

// Seen red when an empty tensor counted as overlapping the next one.
TEST_F(SafetensorsTest, ReadsAnEmptyTensorInFrontOfOneWhoseNameComesBeforeItsOwn) {
  std::vector<TensorBytes> tensors = {{{"b", "F32", {1}}, floats_, 4},
                                      {{"c", "F32", {0}}, floats_, 0},
                                      {{"a", "U8", {3}}, bytes_, 3}};
  Write(&tensors);
  const SafetensorsFile file = OpenAndVerify(path());
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors()) names.push_back(tensor.info.name);
  EXPECT_THAT(names, ElementsAre("b", "c", "a"));
}

TEST_F(SafetensorsTest, FollowsThePublishedFormat) {
  std::uint64_t size = 0;
  std::memcpy(&size, whole_.data(), 8);
  EXPECT_EQ(size % 8, 0u);
  const auto header = nlohmann::json::parse(whole_.substr(8, size));
  EXPECT_EQ(header["model.weight"]["dtype"], "F32");
  EXPECT_EQ(header["model.weight"]["shape"], (std::vector<int>{2, 2}));
  for (const auto& item : header["__metadata__"]) EXPECT_TRUE(item.is_string());
  const std::size_t begin = header["model.weight"]["data_offsets"][0];
  EXPECT_EQ(std::memcmp(whole_.data() + 8 + size + begin, floats_, sizeof(floats_)), 0);
}

TEST_F(SafetensorsTest, RefusesEveryTruncation) {
  for (std::size_t size = 0; size < whole_.size(); ++size) {
    Rewrite(whole_.substr(0, size));
    ASSERT_THROW(OpenAndVerify(path()), DamagedError) << size << " bytes";
    ASSERT_THAT(Reason(), HasSubstr("too short")) << size << " bytes";
    ASSERT_THAT(Reason(SafetensorsFile::Open), HasSubstr("too short")) << size;
  }
}

TEST_F(SafetensorsTest, TheCheckOfTheStructureDoesNotReadTheTensors) {
  std::string damaged = whole_;
  damaged.back() ^= 1;
  Rewrite(damaged);
  EXPECT_EQ(Reason(SafetensorsFile::Open), "it is fine");
  EXPECT_THROW(OpenAndVerify(path()), DamagedError);
}

TEST_F(SafetensorsTest, RefusesEveryFlippedBit) {
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    // Spaces after the header are not protected by a hash.
    if (whole_[i] == ' ' && whole_.find_first_not_of(' ', i) > whole_.find('}', i)) continue;
    std::string damaged = whole_;
    damaged[i] ^= 1;
    Rewrite(damaged);
    ASSERT_NE(Reason(), "it is fine") << "byte " << i << " '" << whole_[i] << "'";
  }
}

TEST_F(SafetensorsTest, RefusesBytesBehindTheEnd) {
  Rewrite(whole_ + "x");
  EXPECT_THAT(Reason(), HasSubstr("but the file has"));
}

// The program that wrote the file can read it: it must not count as damaged.
TEST_F(SafetensorsTest, RefusesAnotherFormatVersionWhichIsNoDamage) {
  std::string other = whole_;
  const std::string key = std::string("\"") + kFormatKey + "\":\"";
  other[other.find(key) + key.size()] = '2';
  Rewrite(other);
  EXPECT_EQ(Reason(), "its format version is 2, expected 1");
  Rewrite(std::string("\2\0\0\0\0\0\0\0{}", 10));  // of another program
  EXPECT_EQ(Reason(), "its format version is missing, expected 1");
  EXPECT_FALSE(IsDamaged(path()));
}

TEST_F(SafetensorsTest, RefusesADtypeOfALaterVersionWhichIsNoDamage) {
  std::vector<TensorBytes> tensors = {{{"a", "F4", {3}}, bytes_, 3}};
  Write(&tensors);
  EXPECT_THAT(Reason(), HasSubstr("unknown dtype 'F4'"));
  EXPECT_FALSE(IsDamaged(path()));
}

TEST_F(SafetensorsTest, AFileThatIsNotGivenOutIsNoDamageAndHasAnErrno) {
  try {
    SafetensorsFile::Open(folder_ / "none");
    FAIL();
  } catch (const UnavailableError& e) {
    EXPECT_EQ(e.error(), ENOENT);
    EXPECT_STREQ(e.what(), "cannot open it: No such file or directory");
  }
  const test::WatchedDisk disk(folder_.path());
  disk.FailReads("f", EIO, whole_.size() - 1);
  const SafetensorsFile file = SafetensorsFile::Open(path());
  try {
    test::Verify(file);
    FAIL();
  } catch (const UnavailableError& e) {
    EXPECT_EQ(e.error(), EIO);
    EXPECT_EQ(e.offset() + e.size(), whole_.size());
    EXPECT_THAT(e.what(), HasSubstr("Input/output error"));
  }
}

TEST_F(SafetensorsTest, AFileServersForgottenHandleIsOpenedAnewOnce) {
  const test::WatchedDisk disk(folder_.path());
  disk.FailReads("f", ESTALE, 0, 1);
  OpenAndVerify(path());
  disk.FailReads("f", ESTALE, 0, 2);
  EXPECT_THROW(OpenAndVerify(path()), UnavailableError);
}

TEST_F(SafetensorsTest, RefusesAFolderAndAMissingFileWhichIsNoDamage) {
  EXPECT_THROW(OpenAndVerify(folder_.path()), FormatError);
  EXPECT_THROW(OpenAndVerify(folder_ / "none"), FormatError);
  EXPECT_FALSE(IsDamaged(folder_.path()));
  EXPECT_FALSE(IsDamaged(folder_ / "none"));
}

}  // namespace safetensors_test
}  // namespace ddp::internal
