#include "rendezvous/auth/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace ddprun::auth {
namespace tokens_test {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Why(std::string_view text) {
  const auto tokens = ParseTokens(text, "FILE");
  EXPECT_FALSE(tokens.ok());
  return std::string(tokens.status().message());
}

TEST(TokensTest, ABareTokenIsCalledToken) {
  const auto tokens = ParseTokens("\n# ours\n  0123456789abcdef \r\n", "FILE");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 1u);
  EXPECT_EQ(tokens->front().name, "token");
  EXPECT_EQ(tokens->front().secret, "0123456789abcdef");
}

TEST(TokensTest, ALineCanNameItsToken) {
  const auto tokens = ParseTokens("ann: 0123456789abcdef\nbob:0123456789abcde:", "FILE");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_EQ((*tokens)[0].name, "ann");
  EXPECT_EQ((*tokens)[0].secret, "0123456789abcdef");
  EXPECT_EQ((*tokens)[1].name, "bob");
  EXPECT_EQ((*tokens)[1].secret, "0123456789abcde:");
}

TEST(TokensTest, WhatIsWrongIsSaidWithTheLineAndWithoutTheSecret) {
  EXPECT_EQ(Why("# none\n"),
            "FILE: expected a token (found none); openssl rand -hex 32 makes a good one");
  EXPECT_EQ(Why("\nshort"),
            "FILE:2: expected a token of 16 to 1024 bytes (found 5); openssl rand -hex 32 makes a "
            "good one");
  EXPECT_THAT(Why("0123456789abcdef\n0123456789abcdeg"), HasSubstr("FILE:2: a second token"));
  EXPECT_THAT(Why("an n:0123456789abcdef"), HasSubstr("FILE:1: expected TOKEN or NAME:TOKEN"));
  EXPECT_THAT(Why("an n:0123456789abcdef"), Not(HasSubstr("0123456789")));
  EXPECT_THAT(Why(std::string(1025, 'x')), HasSubstr("(found 1025)"));
}

class TokenFileTest : public testing::Test {
 protected:
  std::string Error() const { return std::string(LoadTokens(path_).status().message()); }
  void Write(mode_t mode) const {
    std::ofstream(path_) << "0123456789abcdef\n";
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  TempDir folder_;
  const std::string path_ = folder_ / "token";
};

TEST_F(TokenFileTest, IsReadWhereOnlyItsOwnerMay) {
  Write(0600);
  EXPECT_TRUE(LoadTokens(path_).ok());
  Write(0400);
  EXPECT_TRUE(LoadTokens(path_).ok());
}

// Seen red without the check of the mode.
TEST_F(TokenFileTest, IsRefusedWhereOthersMayReadOrWriteIt) {
  for (const mode_t mode : {0640, 0604, 0620, 0602}) {
    Write(mode);
    EXPECT_THAT(Error(), HasSubstr("chmod 600 " + path_)) << mode;
  }
}

// systemd stores the files of LoadCredential= with mode 0440, in a folder of mode 0550 or less.
TEST_F(TokenFileTest, MayBeReadByItsGroupWhereSystemdHasPutIt) {
  const std::string folder = folder_ / "credentials";
  const std::string file = folder + "/token";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  std::ofstream(file) << "0123456789abcdef\n";
  const auto error = [&](mode_t folder_mode, mode_t mode) {
    EXPECT_EQ(chmod(folder.c_str(), folder_mode), 0);
    EXPECT_EQ(chmod(file.c_str(), mode), 0);
    return std::string(LoadTokens(file).status().message());
  };
  EXPECT_THAT(error(0500, 0440), HasSubstr("chmod 600")) << "not systemd's";
  ASSERT_EQ(setenv("CREDENTIALS_DIRECTORY", folder.c_str(), 1), 0);
  EXPECT_EQ(error(0500, 0440), "");
  EXPECT_EQ(error(0550, 0440), "");
  EXPECT_EQ(error(0500, 0400), "");
  EXPECT_THAT(error(0500, 0444), HasSubstr("chmod 600"));
  EXPECT_THAT(error(0500, 0460), HasSubstr("chmod 600"));
  EXPECT_THAT(error(0755, 0440), HasSubstr("chmod 600")) << "others can get in";
  Write(0440);
  EXPECT_THAT(Error(), HasSubstr("chmod 600 " + path_)) << "next to the folder";
  ASSERT_EQ(symlink(path_.c_str(), (folder_ / "credentials/link").c_str()), 0);
  EXPECT_THAT(std::string(LoadTokens(folder + "/link").status().message()), HasSubstr("chmod 600"));
  EXPECT_EQ(chmod(folder.c_str(), 0700), 0);  // so that it can be removed
  ASSERT_EQ(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

// kubelet stores the secret of a pod with an fsGroup as a file of root with mode 0440, in a folder
// in memory that everybody may enter.
TEST_F(TokenFileTest, MayBeReadByItsGroupInAPodsVolumeOfSecrets) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes files of root's";
  char folder[] = "/dev/shm/ddprun-secret-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/token";
  std::ofstream(file) << "0123456789abcdef\n";
  const auto error = [&](mode_t mode) {
    EXPECT_EQ(chmod(file.c_str(), mode), 0);
    return std::string(LoadTokens(file).status().message());
  };
  EXPECT_THAT(error(0440), HasSubstr("chmod 600")) << "not in a pod";
  ASSERT_EQ(setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1), 0);
  EXPECT_EQ(error(0440), "");
  EXPECT_THAT(error(0444), HasSubstr("chmod 600"));
  EXPECT_THAT(error(0460), HasSubstr("chmod 600"));
  ASSERT_EQ(chown(file.c_str(), 1000, 0), 0);
  EXPECT_THAT(error(0440), HasSubstr("chmod 600")) << "not root's";
  ASSERT_EQ(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
  std::filesystem::remove_all(folder);
}

TEST_F(TokenFileTest, MustBeARegularFileThatIsThere) {
  EXPECT_THAT(Error(), HasSubstr("token file " + path_));
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Error(), HasSubstr("expected a regular file"));
}

}  // namespace tokens_test
}  // namespace ddprun::auth
