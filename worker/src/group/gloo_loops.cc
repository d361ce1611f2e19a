#include "worker/src/group/gloo_loops.h"

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace ddp::internal {
namespace {

constexpr std::string_view kEpoll = "anon_inode:[eventpoll]";
constexpr std::string_view kWatched = "tfd:";

int NumberIn(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::vector<int> EpollDescriptors() {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);  // it may be closed
    if (!error && target.native() == kEpoll) {
      found.push_back(NumberIn(entry.path().filename().native()));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int> WatchedBy(int epoll) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(epoll));
  std::vector<int> watched;
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with(kWatched)) {
      watched.push_back(NumberIn(std::string_view(line).substr(kWatched.size())));
    }
  }
  return watched;
}

bool Listens(int socket) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

}  // namespace

GlooLoops GlooLoops::Of(const std::function<void()>& make) {
  const std::vector<int> before = EpollDescriptors();
  make();
  const std::vector<int> after = EpollDescriptors();
  GlooLoops result;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(result.loops_));
  return result;
}

void GlooLoops::ShutDown() const {
  for (const int loop : loops_) {
    for (const int socket : WatchedBy(loop)) {
      // Newer versions of Gloo end the process where a listening socket accepts no more.
      if (!Listens(socket)) shutdown(socket, SHUT_RDWR);
    }
  }
}

}  // namespace ddp::internal
