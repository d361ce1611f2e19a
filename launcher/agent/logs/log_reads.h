// LogReads: reads the log files of this node's workers for the rendezvous, as its LogOrders say.
//
// LogReads decides how much to read and when. A separate thread reads the disk (LogFileReader), one
// chunk at a time, alternating between readings. A reading sends no more bytes than its reader has
// allowed. At the end of a followed file, the reading waits until the WriterThread writes more or
// closes the file. If the disk does not answer, the readers of logs get an error.
//
// Belongs to the agent and its loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_LOGS_LOG_READS_H_
#define DDPRUN_LAUNCHER_AGENT_LOGS_LOG_READS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/agent/logs/log_file_reader.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "launcher/os/output/written_files.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class LogReads {
 public:
  using Send = std::function<void(const Header&, const LogPiece&)>;
  struct Options {
    std::string run;                               // the folder of the run
    std::chrono::milliseconds disk_limit{10'000};  // per chunk; then the reading ends
  };

  // `loop` must outlive this object. `written` learns of all writes below `run`.
  LogReads(Options options, EventLoop* loop, std::shared_ptr<WrittenFiles> written);
  ~LogReads();
  LogReads(const LogReads&) = delete;
  LogReads& operator=(const LogReads&) = delete;

  // Performs an order that came on the current session. Calls `send` on the loop, also after this
  // function has returned.
  void Perform(const Header& header, const LogOrder& order, const Send& send);
  // Call it when the session is over: ends all readings that were ordered on it.
  void OnSessionLost();

  // From now until OnGenerationEnded(), workers of this generation may open files.
  void OnGenerationBegun(Generation generation) { generation_ = generation; }
  void OnGenerationEnded();

  // Call it when the job is over. Calls `done` when no reading is left, but after `limit` at the
  // latest; at once if there is no reading.
  void Finish(std::chrono::milliseconds limit, std::function<void()> done);

 private:
  struct Reading {
    Header header;  // of the order; the answers repeat it
    Send send;
    ReadLog wanted;
    std::string path;                     // the key in WrittenFiles
    std::shared_ptr<LogFileReader> file;  // belongs to the thread while `busy`
    std::size_t allowed = 0;
    bool busy = false;
    EventLoop::TimerId limit = 0;
  };
  using Chunk = absl::StatusOr<LogFileReader::Chunk>;

  void Begin(LogReadingId id, const Header& header, const ReadLog& wanted, const Send& send);
  // Requests the next chunk from the thread, if sending it is allowed.
  void Step(LogReadingId id);
  // `before`: the state of the file when the chunk was ordered.
  void OnRead(LogReadingId id, const WrittenFiles::State& before, const Chunk& chunk);
  void OnEndOfFile(LogReadingId id, const WrittenFiles::State& before, bool missing);
  void End(LogReadingId id, const std::string& note);
  // Closes its file on the thread, because close() may wait for the disk, too.
  void LetGo(Reading& reading);

  const Options options_;
  EventLoop* const loop_;
  const std::shared_ptr<WrittenFiles> written_;
  std::map<LogReadingId, Reading> readings_;
  std::size_t on_disk_ = 0;  // chunks that the thread has not answered, ended readings included
  std::optional<Generation> generation_;  // its workers may open files
  std::function<void()> finished_;
  OffLoop disk_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_LOGS_LOG_READS_H_
