#include "launcher/os/file_util.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "tests/unit/launcher/os/test_support.h"

namespace ddprun {
namespace file_util_test {

TEST(FileUtilTest, MakeDirsMakesWhatIsMissingAndAcceptsWhatIsThere) {
  const test::TempDir dir;
  EXPECT_TRUE(MakeDirs(dir / "a/b/c").ok());
  EXPECT_TRUE(MakeDirs(dir / "a/b/c").ok());
  EXPECT_TRUE(std::filesystem::is_directory(dir / "a/b/c"));
}

TEST(FileUtilTest, MakeDirsNamesThePathAndTheReason) {
  EXPECT_EQ(MakeDirs("/dev/null/a").message(), "cannot make folder /dev/null/a: Not a directory");
}

TEST(FileUtilTest, WriteFileAtomicReplacesTheContentAndLeavesNothingElse) {
  const test::TempDir dir;
  const std::string path = dir / "port";
  ASSERT_TRUE(WriteFileAtomic(path, "a longer content").ok());
  ASSERT_TRUE(WriteFileAtomic(path, "29400\n").ok());
  EXPECT_EQ(test::ReadFile(path), "29400\n");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST(FileUtilTest, WriteFileAtomicFailsCleanly) {
  const test::TempDir dir;
  EXPECT_EQ(WriteFileAtomic("/nowhere/port", "1").message(),
            "cannot write /nowhere/port: No such file or directory");
  std::filesystem::create_directory(dir / "taken");
  EXPECT_EQ(std::string(WriteFileAtomic(dir / "taken", "1").message()),
            "cannot write " + dir / "taken" + ": Is a directory");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()),
                          std::filesystem::directory_iterator()),
            1);
}

}  // namespace file_util_test
}  // namespace ddprun
