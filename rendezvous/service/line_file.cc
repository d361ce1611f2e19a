#include "rendezvous/service/line_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

std::string ErrnoText(int error) { return std::generic_category().message(error); }

int OpenForAppend(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
}

// Appends all of `text` or nothing. Returns 0 or the errno.
int AppendWhole(int fd, std::string_view text) {
  struct stat before {};
  const bool regular = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      if (regular && rest.size() < text.size()) (void)!ftruncate(fd, before.st_size);
      return error;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

struct LineFile::State {
  explicit State(Options options) : options(std::move(options)) {}

  const Options options;
  int fd = -1;  // the thread's own, once it runs

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::deque<std::string> queue;
  std::size_t queued_bytes = 0;  // of queue, and of what is being written
  bool writing = false;
  bool reopen = false;
  bool stop = false;
  bool ended = false;
  std::size_t dropped = 0;  // since the start
  std::size_t missing = 0;  // since the last line that was written
};

LineFile::LineFile(Options options) : state_(std::make_shared<State>(std::move(options))) {}

absl::Status LineFile::Open() {
  state_->fd = OpenForAppend(state_->options.path);
  if (state_->fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot open ", state_->options.path, ": ", ErrnoText(errno)));
  }
  std::thread([state = state_] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    Run(*state);
  }).detach();
  return absl::OkStatus();
}

LineFile::~LineFile() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  if (state_->fd < 0) return;
  state_->changed.wait_for(lock, kCloseGrace, [this] { return state_->ended; });
}

void LineFile::Append(std::string line) {
  bool first = false;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queued_bytes + line.size() > state_->options.max_queued_bytes) {
      first = state_->missing == 0;
      ++state_->missing;
      ++state_->dropped;
    } else {
      state_->queued_bytes += line.size() + 1;
      state_->queue.push_back(std::move(line));
      state_->changed.notify_all();
    }
  }
  if (first) {
    state_->options.log(absl::StrCat(state_->options.path,
                                     ": the disk is too slow for the events, or hangs: lines are "
                                     "dropped until it has caught up"));
  }
}

void LineFile::Reopen() {
  const std::lock_guard lock(state_->mutex);
  state_->reopen = true;
  state_->changed.notify_all();
}

bool LineFile::Flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(
      lock, limit, [this] { return state_->queue.empty() && !state_->writing && !state_->reopen; });
}

std::size_t LineFile::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

void LineFile::Run(State& state) {
  const Options& options = state.options;
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock,
                       [&state] { return state.stop || state.reopen || !state.queue.empty(); });
    if (state.queue.empty() && !state.reopen) break;  // stop
    const bool reopen = std::exchange(state.reopen, false);
    std::deque<std::string> lines = std::exchange(state.queue, {});
    state.writing = true;
    std::size_t missing = state.missing;
    lock.unlock();

    if (reopen) {
      const int fresh = OpenForAppend(options.path);
      if (fresh >= 0) {
        close(std::exchange(state.fd, fresh));
      } else {
        options.log(absl::StrCat("cannot open ", options.path,
                                 " anew, the old file goes on: ", ErrnoText(errno)));
      }
    }
    std::string text;
    const std::size_t told = missing;
    if (missing > 0) absl::StrAppend(&text, options.missing(missing), "\n");
    std::size_t bytes = 0;
    for (const std::string& line : lines) {
      absl::StrAppend(&text, line, "\n");
      bytes += line.size() + 1;
    }
    const int error = lines.empty() ? 0 : AppendWhole(state.fd, text);
    if (error != 0 && missing == 0) {
      options.log(absl::StrCat("cannot write to ", options.path, ": ", ErrnoText(error),
                               ": lines of history are dropped until it works again"));
    } else if (error == 0 && missing > 0 && !lines.empty()) {
      options.log(absl::StrCat(options.path, ": written again; ", missing, " lines are missing"));
    }

    lock.lock();
    state.writing = false;
    state.queued_bytes -= bytes;
    if (error != 0) {
      state.missing += lines.size();
      state.dropped += lines.size();
    } else if (!lines.empty()) {
      state.missing -= told;
    }
    state.changed.notify_all();
  }
  close(std::exchange(state.fd, -1));
  state.ended = true;
  state.changed.notify_all();
}

}  // namespace ddprun
