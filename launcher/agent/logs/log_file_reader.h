// LogFileReader: reads one log file of a worker for `ddprun logs`. The reading begins where the
// request says (LogSpan), if necessary in the file that logs.max_size rotated out. It follows the
// file as the file grows or is rotated again.
//
// Generation, local rank and stream name the file. Each folder below the run's folder is opened by
// openat with O_NOFOLLOW. A link, pipe or device that a worker put there is refused.
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
  // At most this many bytes are read to find the last lines.
  static constexpr std::uint64_t kMaxScanBytes = 64 << 20;

  // `run`: the folder of the run. `written`: how much was written since a given time.
  LogFileReader(std::string run, const ReadLog& wanted, std::shared_ptr<const WrittenFiles> written)
      : run_(std::move(run)), wanted_(wanted), written_(std::move(written)) {}

  struct Chunk {
    std::string text{};    // empty: no more for now
    bool missing = false;  // the file does not exist, or not yet
  };
  // The next bytes, at most `most`. If more bytes follow, the chunk ends at a line's end, unless
  // the line is longer than the chunk.
  absl::StatusOr<Chunk> Read(std::size_t most);

 private:
  // An open file and the rest to read.
  struct Part {
    UniqueFd fd;
    ino_t inode = 0;
    std::uint64_t size = 0;  // when it was opened
    std::uint64_t at = 0;
  };

  absl::Status OpenFolder();
  absl::StatusOr<Part> OpenPart(const std::string& name) const;
  // Opens the file and the rotated one, and seeks to the start of the reading.
  absl::Status Begin();
  absl::StatusOr<std::uint64_t> StartOf(const LogSpan& span) const;
  absl::StatusOr<std::uint64_t> StartOfLastLines(std::int64_t lines) const;
  // The start of the first line at or after `from`.
  std::uint64_t NextLine(std::uint64_t from) const;
  // Like pread, over both files as one.
  ssize_t ReadAt(std::uint64_t at, char* buffer, std::size_t size) const;
  absl::StatusOr<std::string> ReadPart(Part& part, std::size_t most) const;
  // If the file was rotated out and is read to its end, continues in the new file. `gap`: a line
  // for the reader, if bytes may be missing before the new file. False: there is no new file.
  absl::StatusOr<bool> Follow(std::string* gap);

  const std::string run_;
  const ReadLog wanted_;
  const std::shared_ptr<const WrittenFiles> written_;

  UniqueFd folder_;
  Part older_;  // without a descriptor: no such file, or read to its end
  Part current_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_LOGS_LOG_FILE_READER_H_
