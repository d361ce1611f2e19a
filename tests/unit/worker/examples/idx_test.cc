#include "worker/examples/mnist/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace mnist {
namespace idx_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two items of 1 × 3 bytes.
const std::string kFile = std::string("\0\0\x08\x03", 4) + std::string("\0\0\0\2", 4) +
                          std::string("\0\0\0\1", 4) + std::string("\0\0\0\3", 4) + "abcdef";

class IdxTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  void WriteZipped(const std::string& name, const std::string& content) const {
    const gzFile file = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
  }

  std::string Reason() const {
    try {
      ReadIdx(folder_.path(), "f", 3);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "it is fine";
  }

  ddprun::TempDir folder_;
};

TEST_F(IdxTest, ReadsPlainFiles) {
  Write("f", kFile);
  const IdxArray array = ReadIdx(folder_.path(), "f", 3);
  EXPECT_EQ(array.extents, (std::vector<std::uint32_t>{2, 1, 3}));
  EXPECT_EQ(std::string(array.values.begin(), array.values.end()), "abcdef");
}

TEST_F(IdxTest, ReadsGzippedFiles) {
  WriteZipped("f.gz", kFile);
  EXPECT_EQ(ReadIdx(folder_.path(), "f", 3).values.size(), 6u);
}

TEST_F(IdxTest, RefusesEveryTruncation) {
  for (std::size_t size = 0; size < kFile.size(); ++size) {
    Write("f", kFile.substr(0, size));
    ASSERT_THAT(Reason(), AllOf(HasSubstr(folder_ / "f"), HasSubstr("truncated"))) << size;
  }
}

TEST_F(IdxTest, RefusesATruncatedGzippedFile) {
  WriteZipped("f.gz", kFile + std::string(100, 'x'));
  const std::string zipped = ddp::test::ReadFile(folder_ / "f.gz");
  Write("f.gz", zipped.substr(0, zipped.size() - 10));
  EXPECT_NE(Reason(), "it is fine");
}

TEST_F(IdxTest, RefusesAWrongMagicNumber) {
  std::string wrong = kFile;
  wrong[3] = 1;
  Write("f", wrong);
  EXPECT_THAT(Reason(), AllOf(HasSubstr("0x00000801"), HasSubstr("expected 0x00000803")));
}

TEST_F(IdxTest, RefusesBytesBehindTheEndAndImpossibleSizes) {
  Write("f", kFile + "x");
  EXPECT_THAT(Reason(), HasSubstr("more bytes"));
  std::string huge = kFile;
  huge[4] = huge[8] = '\x7f';
  Write("f", huge);
  EXPECT_THAT(Reason(), HasSubstr("impossible size"));
}

TEST_F(IdxTest, AMissingFileIsNamed) {
  EXPECT_THAT(Reason(), AllOf(HasSubstr(folder_ / "f is missing"), HasSubstr("get_mnist.sh")));
}

}  // namespace idx_test
}  // namespace mnist
