#include "launcher/connection/state_home.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/support/capabilities.h"
#include "tests/support/temp_dir.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace state_home_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

// Each test has its own state home, named by DDPRUN_STATE_HOME.
class StateHomeTest : public testing::Test {
 protected:
  StateHomeTest() { Name(home_); }
  ~StateHomeTest() override {
    if (!before_) unsetenv("DDPRUN_STATE_HOME");
    if (before_) Name(*before_);
  }

  static void Name(const std::string& folder) {
    setenv("DDPRUN_STATE_HOME", folder.c_str(), /*overwrite=*/1);
  }
  static std::string Refusal() {
    const auto home = StateHome();
    EXPECT_EQ(home.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(home.status().message());
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  // Whether systemd-tmpfiles leaves the folder alone: it removes nothing old from a folder that is
  // locked.
  static bool IsLeftAlone(const std::string& folder) {
    const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY));
    return flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }

  const TempDir folder_;
  const std::string home_ = folder_ / "home";

 private:
  static std::optional<std::string> Before() {
    const char* const value = std::getenv("DDPRUN_STATE_HOME");
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }
  const std::optional<std::string> before_ = Before();
};

TEST_F(StateHomeTest, IsMadeForItsUserAlone) {
  const auto home = StateHome();
  ASSERT_TRUE(home.ok()) << home.status();
  EXPECT_EQ(*home, home_);
  EXPECT_EQ(ModeOf(home_), 0700u);
  EXPECT_TRUE(StateHome().ok()) << "the second time";
}

TEST_F(StateHomeTest, IsInTmpUnlessAnotherIsNamedWhateverTmpdirSays) {
  const std::string expected = "/tmp/ddprun-" + std::to_string(geteuid());
  const bool was_there = std::filesystem::exists(expected);
  Name("");
  setenv("TMPDIR", folder_.path().c_str(), 1);
  const auto home = StateHome();
  unsetenv("TMPDIR");
  // This is the real folder of the user who runs the tests. StateHome() may refuse it.
  EXPECT_THAT(home.ok() ? *home : std::string(home.status().message()), HasSubstr(expected));
  if (!was_there) rmdir(expected.c_str());
}

TEST_F(StateHomeTest, OfAnotherUserIsRefused) {
  DDPRUN_NEEDS(HasCapability(CAP_CHOWN) ? "" : "CAP_CHOWN");
  ASSERT_EQ(mkdir(home_.c_str(), 0700), 0);
  ASSERT_EQ(chown(home_.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(home_ + " belongs to user 65534, you are user "),
                               HasSubstr("Set DDPRUN_STATE_HOME to another folder")));
}

TEST_F(StateHomeTest, ThatOthersMayUseIsRefused) {
  ASSERT_EQ(mkdir(home_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(home_.c_str(), 0750), 0);
  EXPECT_THAT(Refusal(), HasSubstr("can be used by others (mode 0750): chmod 700 " + home_));
}

TEST_F(StateHomeTest, ASymbolicLinkIsRefusedEvenToAGoodFolder) {
  ASSERT_EQ(mkdir((folder_ / "good").c_str(), 0700), 0);
  ASSERT_EQ(symlink((folder_ / "good").c_str(), home_.c_str()), 0);
  EXPECT_THAT(Refusal(), HasSubstr(home_ + " is a symbolic link"));
}

TEST_F(StateHomeTest, WhatIsNoFolderIsRefused) {
  std::ofstream(home_) << "";
  EXPECT_THAT(Refusal(), HasSubstr("is not a folder"));
  Name("relative");
  EXPECT_THAT(Refusal(), HasSubstr("is not an absolute path"));
  Name(folder_ / "none/home");
  EXPECT_THAT(Refusal(), HasSubstr("cannot be made: No such file or directory"));
}

TEST_F(StateHomeTest, AnEndpointHasOneFolderHoweverItIsNamed) {
  EXPECT_EQ(EndpointFolderPath("/h", "localhost", 29400), "/h/localhost:29400");
  EXPECT_EQ(EndpointFolderPath("/h", "127.0.0.1", 29400), "/h/localhost:29400");
  EXPECT_EQ(EndpointFolderPath("/h", "::1", 29400), "/h/localhost:29400");
  EXPECT_EQ(EndpointFolderPath("/h", "127.0.0.2", 29400), "/h/127.0.0.2:29400");
  EXPECT_EQ(EndpointFolderPath("/h", "10.0.0.1", 1), "/h/10.0.0.1:1");
  EXPECT_EQ(EndpointFolderPath("/h", "../up", 1), "/h/.._up:1");
}

TEST_F(StateHomeTest, OneProcessHasAnEndpointsFolderAndNobodyCleansItUp) {
  {
    const auto first = EndpointFolder::Take("127.0.0.1", 29400);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(first->path(), home_ + "/localhost:29400");
    EXPECT_EQ(ModeOf(first->path()), 0700u);
    EXPECT_TRUE(IsLeftAlone(first->path()));
    EXPECT_TRUE(EndpointFolder::IsHeld("localhost", 29400));
    EXPECT_FALSE(EndpointFolder::IsHeld("localhost", 29401));
    EXPECT_TRUE(absl::IsAlreadyExists(EndpointFolder::Take("localhost", 29400).status()));
    EXPECT_TRUE(EndpointFolder::Take("127.0.0.1", 29401).ok());
  }
  EXPECT_FALSE(IsLeftAlone(home_ + "/localhost:29400"));
  EXPECT_FALSE(EndpointFolder::IsHeld("localhost", 29400));
  EXPECT_TRUE(EndpointFolder::Take("localhost", 29400).ok());
}

TEST_F(StateHomeTest, ATokenIsForItsUserAloneAndGoesWithItsFolder) {
  auto folder = EndpointFolder::Take("127.0.0.1", 1);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::string path = TokenPath(folder->path());
  EXPECT_TRUE(folder->WriteToken("first").ok());
  const mode_t mask = umask(0);
  EXPECT_TRUE(folder->WriteToken("second").ok());
  umask(mask);
  std::string line;
  std::getline(std::ifstream(path), line);
  EXPECT_EQ(line, "second");
  EXPECT_EQ(ModeOf(path), 0600u);
  folder->Remove();
  EXPECT_FALSE(std::filesystem::exists(folder->path()));
}

TEST_F(StateHomeTest, AFolderIsRemovedUnlessItHoldsAFile) {
  auto folder = EndpointFolder::Take("10.0.0.1", 1);
  ASSERT_TRUE(folder.ok()) << folder.status();
  std::ofstream(folder->path() + "/journal") << "";
  folder->Remove();
  EXPECT_TRUE(std::filesystem::exists(folder->path() + "/journal"));
  std::filesystem::remove(folder->path() + "/journal");
  folder->Remove();
  EXPECT_FALSE(std::filesystem::exists(folder->path()));
  // The next rendezvous may take the folder before this one has ended.
  const auto next = EndpointFolder::Take("10.0.0.1", 1);
  ASSERT_TRUE(next.ok()) << next.status();
  folder->Remove();
  EXPECT_TRUE(std::filesystem::exists(next->path()));
}

}  // namespace state_home_test
}  // namespace ddprun
