#include "worker/src/group/gloo_loops.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

#include "worker/contract/unique_fd.h"

// Newer versions of Gloo, which have gloo/common/store.h, connect without these waits. Their loops
// do not end while a timer is due.
#if defined(DDPRUN_GLOO_FITS) && __has_include(<gloo/transport/tcp/loop.h>) && \
    !__has_include(<gloo/common/store.h>)
#include <gloo/transport/tcp/loop.h>
#define DDPRUN_GLOO_WAITS_FOR_LOOP
#endif

namespace ddp::internal {
namespace {

constexpr std::string_view kEpoll = "anon_inode:[eventpoll]";
constexpr std::string_view kWatched = "tfd:";
constexpr std::string_view kInode = " ino:";

// -1: `text` is not a number.
template <typename Number>
Number NumberIn(std::string_view text, int base) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  Number number = static_cast<Number>(-1);
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

std::vector<int> EpollDescriptors() {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);  // fails if closed
    if (!error && target.native() == kEpoll) {
      found.push_back(NumberIn<int>(entry.path().filename().native(), 10));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

struct Watched {
  int descriptor;
  ino_t inode;
};

std::vector<Watched> WatchedBy(int epoll) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(epoll));
  std::vector<Watched> watched;
  for (std::string text; std::getline(info, text);) {
    const std::string_view line = text;
    const std::size_t inode = line.find(kInode);
    if (!line.starts_with(kWatched) || inode == std::string_view::npos) continue;
    watched.push_back({NumberIn<int>(line.substr(kWatched.size()), 10),
                       NumberIn<ino_t>(line.substr(inode + kInode.size()), 16)});
  }
  return watched;
}

// Not valid if the loop has closed the descriptor since: it may be another file now.
ddprun::UniqueFd SameFile(const Watched& watched) {
  ddprun::UniqueFd file(fcntl(watched.descriptor, F_DUPFD_CLOEXEC, 0));
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || status.st_ino != watched.inode) file.reset();
  return file;
}

bool Listens(int socket) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

#ifdef DDPRUN_GLOO_WAITS_FOR_LOOP

// The timer of all loops of the process. Its handler has only one effect: the loop goes round.
class Timer final : public gloo::transport::tcp::Handler {
 public:
  // Never destroyed, because loops may run until the process ends.
  static Timer& OfProcess() {
    static Timer* const timer = new Timer;
    return *timer;
  }

  // If it fails, the loop keeps its 10 ms.
  void Wake(int loop) {
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLET;  // wakes each loop, also if another one has read the timer
    event.data.ptr = static_cast<gloo::transport::tcp::Handler*>(this);
    epoll_ctl(loop, EPOLL_CTL_ADD, timer_.get(), &event);
  }

  void Add(int users) {
    const std::lock_guard<std::mutex> lock(mutex_);
    users_ += users;
    itimerspec times = {};
    if (users_ > 0) times.it_value.tv_nsec = times.it_interval.tv_nsec = kRound;
    timerfd_settime(timer_.get(), 0, &times, nullptr);
  }

  // Called by a loop. The kernel starts the next period only after a read.
  void handleEvents(int /*events*/) override {
    std::uint64_t expired = 0;
    [[maybe_unused]] const ssize_t size = read(timer_.get(), &expired, sizeof(expired));
  }

 private:
  static constexpr long kRound = 500'000;  // nanoseconds

  const ddprun::UniqueFd timer_{timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  std::mutex mutex_;
  int users_ = 0;  // guarded by mutex_
};

#else

class Timer {
 public:
  static Timer& OfProcess() {
    static Timer timer;
    return timer;
  }
  void Wake(int) {}
  void Add(int) {}
};

#endif

}  // namespace

GlooLoops GlooLoops::Of(const std::function<void()>& make) {
  const std::vector<int> before = EpollDescriptors();
  make();
  const std::vector<int> after = EpollDescriptors();
  GlooLoops result;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(result.loops_));
  // A device makes one loop. If there are two, one of them belongs to another library.
  if (result.loops_.size() == 1) Timer::OfProcess().Wake(result.loops_.front());
  return result;
}

void GlooLoops::ShutDown() const {
  for (const int loop : loops_) {
    for (const Watched& watched : WatchedBy(loop)) {
      const ddprun::UniqueFd socket = SameFile(watched);
      // Skip listening sockets: newer versions of Gloo end the process if such a socket accepts no
      // more.
      if (!Listens(socket.get())) shutdown(socket.get(), SHUT_RDWR);
    }
  }
}

GlooHaste::GlooHaste() { Timer::OfProcess().Add(1); }
GlooHaste::~GlooHaste() { Timer::OfProcess().Add(-1); }

}  // namespace ddp::internal
