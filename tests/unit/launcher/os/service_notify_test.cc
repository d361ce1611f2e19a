#include "launcher/os/service_notify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/temp_dir.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace service_notify_test {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// The socket of the service manager. Sets $NOTIFY_SOCKET as long as it lives.
class Manager {
 public:
  // A `path` that begins with '@' is in the abstract namespace.
  explicit Manager(const std::string& path) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.data(), path.size());
    if (path[0] == '@') name.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~Manager() { unsetenv("NOTIFY_SOCKET"); }

  // The next datagram; "" when there is none.
  std::string Next() {
    char buffer[4096];
    const ssize_t size = recv(fd_.get(), buffer, sizeof buffer, 0);
    return size < 0 ? "" : std::string(buffer, static_cast<std::size_t>(size));
  }

 private:
  const UniqueFd fd_;
};

TEST(ServiceNotifyTest, NothingIsSentWhereNobodyAsked) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_TRUE(ServiceNotify("READY=1").ok());
}

TEST(ServiceNotifyTest, OneDatagramToTheSocketOfAPath) {
  const TempDir folder;
  Manager manager(folder / "notify");
  EXPECT_TRUE(ServiceNotify("READY=1\nSTATUS=listening").ok());
  EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=listening");
  EXPECT_EQ(manager.Next(), "");
}

TEST(ServiceNotifyTest, AbstractSocketsToo) {
  Manager manager("@ddprun-test-" + std::to_string(getpid()));
  EXPECT_TRUE(ServiceNotify("STOPPING=1").ok());
  EXPECT_EQ(manager.Next(), "STOPPING=1");
}

TEST(ServiceNotifyTest, AReloadHasItsTimeAndThenAnEnd) {
  const TempDir folder;
  Manager manager(folder / "notify");
  EXPECT_TRUE(ServiceNotifyReloaded().ok());
  EXPECT_THAT(manager.Next(), MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+"));
  EXPECT_EQ(manager.Next(), "READY=1");
}

TEST(ServiceNotifyTest, AManagerThatIsGoneIsNamed) {
  const TempDir folder;
  setenv("NOTIFY_SOCKET", (folder / "nobody").c_str(), 1);
  EXPECT_THAT(std::string(ServiceNotify("READY=1").message()), HasSubstr("/nobody: No such file"));
  setenv("NOTIFY_SOCKET", "relative", 1);
  EXPECT_FALSE(ServiceNotify("READY=1").ok());
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace service_notify_test
}  // namespace ddprun
