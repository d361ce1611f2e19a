#include "launcher/os/output/console_writer.h"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/text/terminal_screen.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kTerminalGrace{100};

// The pause between writes. A single line is shown at once. Without the pause each of many lines
// would wake the thread, which costs more than the line.
constexpr std::chrono::milliseconds kPause{1};

// Appends every line of `lines` with `prefix` in front; returns the number of lines.
void AppendWithPrefix(std::string_view prefix, std::string_view lines, std::string* out) {
  while (!lines.empty()) {
    const std::size_t newline = lines.find('\n');
    out->append(prefix);
    out->append(lines.substr(0, newline));
    out->push_back('\n');
    lines.remove_prefix(newline == std::string_view::npos ? lines.size() : newline + 1);
  }
}

std::uint64_t CountLines(std::string_view lines) {
  const auto newlines = static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  return newlines + (lines.empty() || lines.back() == '\n' ? 0 : 1);
}

// The first whole lines of `text` that fit into PIPE_BUF; at least one line.
std::string_view FirstLines(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text;
  const std::size_t last = text.rfind('\n', PIPE_BUF - 1);
  if (last != std::string_view::npos) return text.substr(0, last + 1);
  const std::size_t first = text.find('\n');
  return first == std::string_view::npos ? text : text.substr(0, first + 1);
}

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// False: the reader is gone. The descriptor may be nonblocking: any process that inherited it can
// set that.
bool WriteToTerminal(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(fd, text.data(), text.size());
    if (size >= 0) {
      text.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      pollfd waiting{fd, POLLOUT, 0};
      ::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct ConsoleWriter::State {
  State(int fd, Options options) : fd(fd), options(std::move(options)) {}

  const int fd;
  const Options options;

  std::mutex mutex;
  std::condition_variable work;  // ends the thread's pause
  std::condition_variable idle;
  // Guarded by mutex.
  TerminalScreen screen;  // its state once all of `pending` is written
  std::string pending;
  std::size_t queued = 0;     // bytes pending and being written
  std::uint64_t dropped = 0;  // lines, not yet reported on the console
  std::uint64_t all_dropped = 0;
  bool broken = false;
  bool scheduled = false;  // a task to show `pending` is queued
  int flushing = 0;        // threads that wait for `idle`
  bool stop = false;

  void Show();
  void Append(std::string_view prefix, std::string_view lines);
  void AppendDroppedNotice();
};

void ConsoleWriter::State::Append(std::string_view prefix, std::string_view lines) {
  const std::size_t before = pending.size();
  if (options.style.terminal) {
    screen.Lines(prefix, lines, &pending);
  } else {
    AppendWithPrefix(prefix, lines, &pending);
  }
  queued += pending.size() - before;
}

void ConsoleWriter::State::AppendDroppedNotice() {
  const std::string where = options.log_directory.empty()
                                ? ""
                                : absl::StrCat(" (they are in ", options.log_directory, ")");
  Append("", absl::StrCat("ddprun: ", std::exchange(dropped, 0),
                          " lines not shown: the terminal did not keep up", where));
}

void ConsoleWriter::State::Show() {
  std::unique_lock lock(mutex);
  while (!pending.empty() && !stop) {
    const std::string text = std::exchange(pending, {});
    std::string_view left = text;
    while (!left.empty() && !broken && !stop) {
      const std::string_view part = FirstLines(left);
      lock.unlock();
      const bool written = WriteToTerminal(fd, part);
      lock.lock();
      left.remove_prefix(part.size());
      queued -= part.size();
      broken = !written;
      if (dropped > 0 && queued <= options.capacity / 2) AppendDroppedNotice();
    }
    queued -= left.size();
    if (broken) {
      queued -= std::exchange(pending, {}).size();
      dropped = 0;
    }
    if (queued == 0) idle.notify_all();
    work.wait_for(lock, kPause, [this] { return flushing > 0 || stop; });
  }
  scheduled = false;
}

ConsoleWriter::ConsoleWriter(int fd, Options options)
    : style_(options.style), state_(std::make_shared<State>(fd, std::move(options))) {}

ConsoleWriter::~ConsoleWriter() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->work.notify_one();
  }
  tasks_.CloseWithin(kTerminalGrace);
}

void ConsoleWriter::Schedule() {
  if (state_->pending.empty() || std::exchange(state_->scheduled, true)) return;
  tasks_.Post([state = state_] { state->Show(); });
}

void ConsoleWriter::Write(std::string_view prefix, std::string_view lines) {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken || lines.empty()) return;
  // After a drop all lines are dropped until the gap is reported, so that a gap has one place.
  if (state_->dropped > 0 || state_->queued >= state_->options.capacity) {
    const std::uint64_t count = CountLines(lines);
    state_->dropped += count;
    state_->all_dropped += count;
    return;
  }
  state_->Append(prefix, lines);
  Schedule();
}

std::uint64_t ConsoleWriter::lines_dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->all_dropped;
}

void ConsoleWriter::ShowBar(int id, std::string_view prefix, std::string_view text) {
  const std::lock_guard lock(state_->mutex);
  if (state_->broken) return;
  // Removing a bar is never skipped; otherwise the bar would stay forever.
  const bool slow = state_->dropped > 0 || state_->queued >= state_->options.capacity;
  if (slow && !text.empty()) return;
  const std::size_t before = state_->pending.size();
  state_->screen.Bar(id, prefix, text, &state_->pending);
  state_->queued += state_->pending.size() - before;
  Schedule();
}

bool ConsoleWriter::Flush(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  ++state_->flushing;
  state_->work.notify_one();  // the thread may pause
  const bool done = state_->idle.wait_until(
      lock, deadline, [this] { return state_->queued == 0 || state_->broken; });
  --state_->flushing;
  return done;
}

Console OpenConsole(int out_fd, int err_fd, const ConsoleWriter::Options& options) {
  const auto open = [&](int fd) {
    ConsoleWriter::Options own = options;
    own.style = StyleFor(::isatty(fd) == 1, Variable("TERM"), Variable("NO_COLOR"));
    return std::make_shared<ConsoleWriter>(fd, std::move(own));
  };
  Console console;
  console.out = open(out_fd);
  struct stat out {};
  struct stat err {};
  const bool same = ::fstat(out_fd, &out) == 0 && ::fstat(err_fd, &err) == 0 &&
                    out.st_dev == err.st_dev && out.st_ino == err.st_ino;
  console.err = same ? console.out : open(err_fd);
  return console;
}

}  // namespace ddprun
