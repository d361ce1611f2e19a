#include "worker/contract/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace ddprun {
namespace unique_fd_test {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

int OpenNull() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(UniqueFdTest, ClosesAtTheEndOfItsLife) {
  const int raw = OpenNull();
  {
    const UniqueFd fd(raw);
    EXPECT_TRUE(fd.valid());
    EXPECT_EQ(fd.get(), raw);
  }
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, MovingLeavesTheSourceEmptyAndClosesTheTargetsOwn) {
  const int first = OpenNull();
  const int second = OpenNull();
  UniqueFd from(first);
  UniqueFd to(second);
  to = std::move(from);
  EXPECT_EQ(to.get(), first);
  EXPECT_FALSE(from.valid());  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(IsOpen(second));
  EXPECT_TRUE(IsOpen(first));
}

TEST(UniqueFdTest, ReleaseKeepsTheDescriptorOpen) {
  UniqueFd fd(OpenNull());
  const int raw = fd.release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(raw));
  fd.reset(raw);
}

}  // namespace unique_fd_test
}  // namespace ddprun
