// Helpers of the tests of launcher/os. Nothing here sleeps: waits run the event loop or poll a
// descriptor.
#ifndef DDPRUN_TESTS_UNIT_LAUNCHER_OS_TEST_SUPPORT_H_
#define DDPRUN_TESTS_UNIT_LAUNCHER_OS_TEST_SUPPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/os/event_loop.h"
#include "launcher/os/process/posix_process_runner.h"
#include "worker/contract/unique_fd.h"

namespace ddprun::test {

inline constexpr std::chrono::seconds kPatience{60};

// A folder that is removed at the end, with its contents.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct PipeEnds {
  UniqueFd read_end;  // nonblocking
  UniqueFd write_end;
};
PipeEnds MakePipe();

// Fills a pipe, so that the next write to it blocks. Returns how many bytes it took.
std::size_t FillPipe(const PipeEnds& pipe);

// Runs the loop until `done` (checked every millisecond), for at most kPatience. Returns done().
bool RunUntil(EventLoop* loop, const std::function<bool()>& done);

// Runs the loop until the process has ended. False: not within kPatience.
bool RunUntilDead(EventLoop* loop, int pidfd);

// Appends the available bytes of a nonblocking descriptor to `text`. False at the end of the
// stream.
bool ReadAvailable(int fd, std::string* text);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& content, int mode);

std::vector<std::string> SplitLines(const std::string& text);

// If the last line of `text` is a ConsoleWriter's note of omitted lines, their number; otherwise 0.
std::uint64_t LinesNotShown(const std::string& text, const std::string& log_directory);

// `sh -c script` with a plain PATH.
SpawnRequest Shell(const std::string& script);

// os_test_child with these arguments.
SpawnRequest Child(const std::vector<std::string>& arguments);

// Waits for the result of a spawn.
absl::Status AwaitOutcome(const SpawnedProcess& process);

// Spawns a process, waits for the result, and discards the process.
absl::Status OutcomeOf(ProcessRunner* runner, const SpawnRequest& request);

// Makes the request's exec wait while the returned file in `folder` exists. When the exec waits, a
// file FILE.hangs appears (tests/programs/hang_exec.cc).
std::string HangExec(const TempDir& folder, SpawnRequest* request);

// Runs one process to its end.
struct Finished {
  ExitStatus status;
  std::string out;
  std::string err;
};
Finished RunToEnd(const SpawnRequest& request);

}  // namespace ddprun::test

#endif  // DDPRUN_TESTS_UNIT_LAUNCHER_OS_TEST_SUPPORT_H_
