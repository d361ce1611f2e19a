#include "launcher/agent/logs/log_file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr std::size_t kBlockBytes = 64 << 10;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// Without O_NONBLOCK, open() would block on a pipe in the file's place.
constexpr int kFileFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

absl::StatusOr<UniqueFd> OpenAt(int folder, const std::string& name, int flags) {
  UniqueFd fd(::openat(folder, name.c_str(), flags));
  if (fd.valid()) return fd;
  if (errno == ELOOP) {
    return absl::FailedPreconditionError(absl::StrCat(name, " is a link, and is not followed"));
  }
  if (errno == ENOTDIR) {  // also for a link, because of O_DIRECTORY
    return absl::FailedPreconditionError(
        absl::StrCat(name, " is a link or no folder, and is not opened"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", name));
}

ssize_t ReadAtOnce(int fd, char* buffer, std::size_t size, std::uint64_t at) {
  ssize_t got;
  do {
    got = ::pread(fd, buffer, size, static_cast<off_t>(at));
  } while (got < 0 && errno == EINTR);
  return got;
}

std::string OlderName(LogStream stream) { return absl::StrCat(LogNameOf(stream), ".1"); }

}  // namespace

std::string LogFolderOf(const ReadLog& wanted) {
  return absl::StrCat("attempt_", wanted.generation.value, "/", wanted.local_rank.value);
}

const char* LogNameOf(LogStream stream) {
  return stream == LogStream::kStdout ? "stdout.log" : "stderr.log";
}

absl::Status LogFileReader::OpenFolder() {
  auto run = OpenAt(AT_FDCWD, run_, kFolderFlags);
  if (!run.ok()) return run.status();
  auto attempt =
      OpenAt(run->get(), absl::StrCat("attempt_", wanted_.generation.value), kFolderFlags);
  if (!attempt.ok()) return attempt.status();
  auto folder = OpenAt(attempt->get(), absl::StrCat(wanted_.local_rank.value), kFolderFlags);
  if (!folder.ok()) return folder.status();
  folder_ = *std::move(folder);
  return absl::OkStatus();
}

absl::StatusOr<LogFileReader::Part> LogFileReader::OpenPart(const std::string& name) const {
  auto fd = OpenAt(folder_.get(), name, kFileFlags);
  if (!fd.ok()) return fd.status();
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", name));
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " is no regular file, and is not read"));
  }
  return Part{*std::move(fd), status.st_ino, static_cast<std::uint64_t>(status.st_size), 0};
}

absl::Status LogFileReader::Begin() {
  if (!folder_.valid()) {
    if (absl::Status opened = OpenFolder(); !opened.ok()) return opened;
  }
  auto current = OpenPart(LogNameOf(wanted_.stream));
  if (!current.ok()) return current.status();
  auto older = OpenPart(OlderName(wanted_.stream));
  if (older.ok() && older->inode == current->inode) {  // rotated between the two calls
    current = OpenPart(LogNameOf(wanted_.stream));
    if (!current.ok()) return current.status();
  }
  if (older.ok() && older->inode != current->inode) older_ = *std::move(older);
  current_ = *std::move(current);
  const auto start = StartOf(wanted_.span);
  if (!start.ok()) {
    current_ = {};  // the next Read tries again
    older_ = {};
    return start.status();
  }
  older_.at = std::min(*start, older_.size);
  current_.at = *start - older_.at;
  return absl::OkStatus();
}

absl::StatusOr<std::uint64_t> LogFileReader::StartOf(const LogSpan& span) const {
  const std::uint64_t end = older_.size + current_.size;
  std::uint64_t start = 0;
  const auto at_most = [&](std::uint64_t bytes) {
    start = std::max(start, end - std::min(end, bytes));
  };
  if (span.bytes) at_most(static_cast<std::uint64_t>(*span.bytes));
  if (span.since) {
    const auto path = absl::StrCat(run_, "/", LogFolderOf(wanted_), "/", LogNameOf(wanted_.stream));
    const auto bytes = written_->WrittenSince(path, std::chrono::steady_clock::now() - *span.since);
    if (bytes) at_most(*bytes);
  }
  start = NextLine(start);
  if (!span.lines) return start;
  const auto of_lines = StartOfLastLines(*span.lines);
  if (!of_lines.ok()) return of_lines.status();
  return std::max(start, *of_lines);
}

std::uint64_t LogFileReader::NextLine(std::uint64_t from) const {
  if (from == 0) return from;
  char block[kBlockBytes];
  // `from` itself begins a line if the byte before it ends one.
  const ssize_t got = ReadAt(from - 1, block, sizeof(block));
  for (ssize_t i = 0; i < got; ++i) {
    if (block[i] == '\n') return from + static_cast<std::uint64_t>(i);
  }
  return from;  // one long line
}

absl::StatusOr<std::uint64_t> LogFileReader::StartOfLastLines(std::int64_t lines) const {
  const std::uint64_t end = older_.size + current_.size;
  if (lines == 0) return end;
  const std::uint64_t floor = end - std::min(end, kMaxScanBytes);
  std::vector<char> block(kBlockBytes);
  std::int64_t found = 0;
  for (std::uint64_t from = end; from > floor;) {
    const std::uint64_t size = std::min<std::uint64_t>(kBlockBytes, from - floor);
    from -= size;
    const ssize_t got = ReadAt(from, block.data(), size);
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot read the file");
    for (ssize_t i = got - 1; i >= 0; --i) {
      const std::uint64_t place = from + static_cast<std::uint64_t>(i);
      // The newline at the end of the file separates no two lines.
      if (block[static_cast<std::size_t>(i)] != '\n' || place + 1 == end) continue;
      if (++found == lines) return place + 1;
    }
  }
  return NextLine(floor);
}

ssize_t LogFileReader::ReadAt(std::uint64_t at, char* buffer, std::size_t size) const {
  std::size_t had = 0;
  while (had < size) {
    const std::uint64_t place = at + had;
    const bool in_older = place < older_.size;
    const Part& part = in_older ? older_ : current_;
    const std::uint64_t offset = in_older ? place : place - older_.size;
    const std::size_t most =
        in_older ? std::min<std::uint64_t>(size - had, older_.size - place) : size - had;
    const ssize_t got = ReadAtOnce(part.fd.get(), buffer + had, most, offset);
    if (got < 0) return got;
    if (got == 0) break;
    had += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(had);
}

absl::StatusOr<LogFileReader::Chunk> LogFileReader::Read(std::size_t most) {
  if (!current_.fd.valid()) {
    const absl::Status begun = Begin();
    if (absl::IsNotFound(begun)) return Chunk{"", true};
    if (!begun.ok()) return begun;
  }
  if (older_.fd.valid()) {
    auto text = ReadPart(older_, most);
    if (!text.ok()) return text.status();
    if (!text->empty()) return Chunk{*std::move(text)};
    older_ = {};
  }
  for (;;) {
    auto text = ReadPart(current_, most);
    if (!text.ok()) return text.status();
    if (!text->empty()) return Chunk{*std::move(text)};
    std::string gap;
    const auto followed = Follow(&gap);
    if (!followed.ok()) return followed.status();
    if (!gap.empty()) return Chunk{gap.substr(0, most)};
    if (!*followed) return Chunk{};
  }
}

absl::StatusOr<std::string> LogFileReader::ReadPart(Part& part, std::size_t most) const {
  std::string text(most, '\0');
  const ssize_t got = ReadAtOnce(part.fd.get(), text.data(), most, part.at);
  if (got < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", LogNameOf(wanted_.stream)));
  }
  text.resize(static_cast<std::size_t>(got));
  if (text.size() == most) {
    const std::size_t newline = text.rfind('\n');
    if (newline != std::string::npos) text.resize(newline + 1);
  }
  part.at += text.size();
  return text;
}

absl::StatusOr<bool> LogFileReader::Follow(std::string* gap) {
  auto next = OpenPart(LogNameOf(wanted_.stream));
  if (absl::IsNotFound(next.status())) return false;  // it is being rotated
  if (!next.ok()) return next.status();
  if (next->inode == current_.inode) return false;
  // First comes the rest of the old file.
  struct stat status {};
  if (::fstat(current_.fd.get(), &status) == 0 &&
      static_cast<std::uint64_t>(status.st_size) > current_.at) {
    return true;  // the new file is opened once this one is read
  }
  auto older = OpenPart(OlderName(wanted_.stream));
  if (older.ok() && older->inode != current_.inode) {
    *gap = absl::StrCat("[ddprun: ", LogNameOf(wanted_.stream),
                        " was replaced faster than it was read; some of it may be missing here]\n");
    older_ = *std::move(older);
  }
  current_ = *std::move(next);
  return true;
}

}  // namespace ddprun
