// LogFileReader: one log file of a worker, read from afar: from where the reader wants it on, over
// the file that --log-max-size has put aside, and on as it grows or is replaced by a new one.
//
// It is named by generation, local rank and stream, and opened below the run's folder, one folder
// after the other, by openat with O_NOFOLLOW: what a worker puts in its place, such as a link, a
// pipe or a device, is refused.
//
// One thread at a time; every call may wait for the disk.
#ifndef DDPRUN_LAUNCHER_AGENT_LOGS_LOG_FILE_READER_H_
#define DDPRUN_LAUNCHER_AGENT_LOGS_LOG_FILE_READER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/output/written_files.h"
#include "rendezvous/core/messages/logs.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

// "attempt_3/0", "stderr.log".
std::string LogFolderOf(const ReadLog& wanted);
const char* LogNameOf(LogStream stream);

class LogFileReader {
 public:
  // A tail of lines is looked for in so much of the file.
  static constexpr std::uint64_t kMaxScanBytes = 64 << 20;

  // `run`: the folder of the run. `written` says how much was written since a time.
  LogFileReader(std::string run, const ReadLog& wanted, std::shared_ptr<const WrittenFiles> written)
      : run_(std::move(run)), wanted_(wanted), written_(std::move(written)) {}

  struct Chunk {
    std::string text{};    // empty: there is no more now
    bool missing = false;  // there is no such file, or not yet
  };
  // At most `most` bytes; up to the end of a line where there is more, and a line ends.
  absl::StatusOr<Chunk> Read(std::size_t most);

 private:
  // An open file, and what is left of it to read.
  struct Part {
    UniqueFd fd;
    ino_t inode = 0;
    std::uint64_t size = 0;  // when it was opened
    std::uint64_t at = 0;
  };

  absl::Status OpenFolder();
  absl::StatusOr<Part> OpenPart(const std::string& name) const;
  // Opens the file, and the one before it, and goes to where the reading begins.
  absl::Status Begin();
  absl::StatusOr<std::uint64_t> StartOf(const LogSpan& span) const;
  absl::StatusOr<std::uint64_t> StartOfLastLines(std::int64_t lines) const;
  // The begin of the first line at `from` or after it.
  std::uint64_t NextLine(std::uint64_t from) const;
  // Reads at a place of both files together; as pread.
  ssize_t ReadAt(std::uint64_t at, char* buffer, std::size_t size) const;
  absl::StatusOr<std::string> ReadPart(Part& part, std::size_t most) const;
  // The file was put aside, and there is a new one: goes on there. False: it was not.
  absl::StatusOr<bool> Follow(std::string* gap);

  const std::string run_;
  const ReadLog wanted_;
  const std::shared_ptr<const WrittenFiles> written_;

  UniqueFd folder_;
  Part older_;  // without a descriptor: there is none, or it was read
  Part current_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_LOGS_LOG_FILE_READER_H_
