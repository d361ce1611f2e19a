#include "launcher/os/output/log_pump.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr int kReadsPerTurn = 4;  // then other descriptors have their turn

}  // namespace

// One pipe. It is read while its file's queue has room.
class LogPump::Stream {
 public:
  // The differences between a worker's two streams.
  struct Kind {
    const char* file_name;
    int number;  // 0: stdout, 1: stderr
    std::shared_ptr<ConsoleWriter> console;
    CollapsingConsole* collapse;
    LineTail* tail;        // may be null
    std::uint64_t* bytes;  // likewise
  };

  Stream(EventLoop* loop, WriterThread* files, const Options& options, Kind kind, UniqueFd pipe)
      : loop_(loop),
        files_(files),
        console_(std::move(kind.console)),
        collapse_(kind.collapse),
        tail_(kind.tail),
        bytes_(kind.bytes),
        local_rank_(options.local_rank),
        bar_id_(2 * options.local_rank + kind.number),
        prefix_(console_ != nullptr && console_->style().colour
                    ? ColourPrefix(options.prefix, options.rank)
                    : options.prefix),
        pipe_(std::move(pipe)),
        splitter_([this](std::string_view lines) { ShowLines(lines); },
                  console_ != nullptr && console_->style().terminal
                      ? [this](std::string_view text) { ShowBar(text); }
                      : LineSplitter::BarSink()) {
    if (collapse_ != nullptr) collapse_->Enter(local_rank_);
    if (!options.directory.empty()) {
      file_ =
          files_->Open(absl::StrCat(options.directory, "/", kind.file_name), [this] { Resume(); });
    }
    Resume();
  }

  ~Stream() { ReadToEnd(); }

  void ReadToEnd() {
    if (!pipe_.valid()) return;
    // Only the bytes that are there now: a grandchild may write forever.
    int available = 0;
    ::ioctl(pipe_.get(), FIONREAD, &available);
    for (std::ptrdiff_t left = available; left > 0;) {
      const ssize_t size = ReadOnce(std::min(kReadBytes, static_cast<std::size_t>(left)));
      if (size <= 0) break;
      left -= size;
    }
    Finish();
  }

  bool finished() const { return !pipe_.valid(); }

 private:
  void Pause() {
    if (std::exchange(watching_, false)) loop_->Unwatch(pipe_.get());
  }

  void Resume() {
    if (!pipe_.valid() || std::exchange(watching_, true)) return;
    loop_->Watch(pipe_.get(), EPOLLIN, [this](std::uint32_t) { OnReadable(); });
  }

  void OnReadable() {
    for (int i = 0; i < kReadsPerTurn && watching_; ++i) {
      const ssize_t size = ReadOnce(kReadBytes);
      if (size < 0) return;  // empty for now
      if (size == 0) return Finish();
    }
  }

  // Reads at most `limit` bytes and passes them on. Returns 0 at the end, -1 if the pipe is empty
  // for now.
  ssize_t ReadOnce(std::size_t limit) {
    char buffer[kReadBytes];
    ssize_t size;
    do {
      size = ::read(pipe_.get(), buffer, limit);
    } while (size < 0 && errno == EINTR);
    if (size <= 0) return size < 0 && errno == EAGAIN ? -1 : 0;
    const std::string_view bytes(buffer, static_cast<std::size_t>(size));
    if (bytes_ != nullptr) *bytes_ += bytes.size();
    if (file_ && !files_->Write(*file_, bytes)) Pause();
    splitter_.Feed(bytes);
    return size;
  }

  void ShowLines(std::string_view lines) {
    if (tail_ != nullptr) tail_->Add(lines);
    if (std::exchange(bar_shown_, false)) console_->ShowBar(bar_id_, "", "");
    if (collapse_ != nullptr) {
      collapse_->Write(local_rank_, lines);
    } else if (console_ != nullptr) {
      console_->Write(prefix_, lines);
    }
  }

  void ShowBar(std::string_view text) {
    console_->ShowBar(bar_id_, prefix_, text);
    bar_shown_ = true;
  }

  void Finish() {
    Pause();
    pipe_.reset();
    splitter_.Finish();
    if (collapse_ != nullptr) collapse_->Leave(local_rank_);
    if (file_) files_->Close(*std::exchange(file_, std::nullopt));
  }

  EventLoop* const loop_;
  WriterThread* const files_;
  const std::shared_ptr<ConsoleWriter> console_;
  CollapsingConsole* const collapse_;  // null: lines go directly to the console
  LineTail* const tail_;
  std::uint64_t* const bytes_;
  const int local_rank_;
  const int bar_id_;
  const std::string prefix_;
  UniqueFd pipe_;
  LineSplitter splitter_;
  std::optional<WriterThread::FileId> file_;
  bool watching_ = false;
  bool bar_shown_ = false;
};

LogPump::LogPump(EventLoop* loop, WriterThread* files, Options options, UniqueFd stdout_pipe,
                 UniqueFd stderr_pipe)
    : out_(std::make_unique<Stream>(
          loop, files, options,
          Stream::Kind{"stdout.log", 0, options.console.out, options.collapse_out, nullptr,
                       options.totals == nullptr ? nullptr : &options.totals->out_bytes},
          std::move(stdout_pipe))),
      err_(std::make_unique<Stream>(
          loop, files, options,
          Stream::Kind{"stderr.log", 1, options.console.err, options.collapse_err, &stderr_tail_,
                       options.totals == nullptr ? nullptr : &options.totals->err_bytes},
          std::move(stderr_pipe))) {}

LogPump::~LogPump() = default;

void LogPump::ReadToEnd() {
  out_->ReadToEnd();
  err_->ReadToEnd();
}

bool LogPump::finished() const { return out_->finished() && err_->finished(); }

}  // namespace ddprun
