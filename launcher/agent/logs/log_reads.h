// LogReads: reads the log files of this node's workers for the rendezvous, as its LogOrders say.
//
// It decides how much to read and when; the disk is read on a thread of its own (LogFileReader),
// one chunk after the other, in turns with other readings. A reading sends no more than its reader
// has allowed. At the end of a file that is followed it waits until the WriterThread has written
// more, or has closed it. A disk that hangs costs the readers an answer, and nobody else anything.
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
    std::chrono::milliseconds disk_limit{10'000};  // for a chunk; then the reading ends
  };

  // `loop` must outlive this object. `written` hears of what is written below `run`.
  LogReads(Options options, EventLoop* loop, std::shared_ptr<WrittenFiles> written);
  ~LogReads();
  LogReads(const LogReads&) = delete;
  LogReads& operator=(const LogReads&) = delete;

  // On a session. `send` is called on the loop, also later.
  void Perform(const Header& header, const LogOrder& order, const Send& send);
  // The session is over, and with it all that was ordered there.
  void OnSessionLost();

  // Workers of this generation may open files from now on, or will not any more.
  void OnGenerationBegun(Generation generation) { generation_ = generation; }
  void OnGenerationEnded();

  // The job is over: calls `done` when nobody reads any more, after `limit` at the latest; at once
  // where nobody reads now.
  void Finish(std::chrono::milliseconds limit, std::function<void()> done);

 private:
  struct Reading {
    Header header;  // of the order: the answers have the same
    Send send;
    ReadLog wanted;
    std::string path;                     // as WrittenFiles has it
    std::shared_ptr<LogFileReader> file;  // the thread's while `busy`
    std::size_t allowed = 0;
    bool busy = false;
    EventLoop::TimerId limit = 0;
  };
  using Chunk = absl::StatusOr<LogFileReader::Chunk>;

  void Begin(LogReadingId id, const Header& header, const ReadLog& wanted, const Send& send);
  // Has the next chunk read, if it may be sent.
  void Step(LogReadingId id);
  // `before`: as the file was when the chunk was ordered.
  void OnRead(LogReadingId id, const WrittenFiles::State& before, const Chunk& chunk);
  void OnEndOfFile(LogReadingId id, const WrittenFiles::State& before, bool missing);
  void End(LogReadingId id, const std::string& note);
  // Closes its file on the thread: that may wait for the disk as well.
  void LetGo(Reading& reading);

  const Options options_;
  EventLoop* const loop_;
  const std::shared_ptr<WrittenFiles> written_;
  std::map<LogReadingId, Reading> readings_;
  std::size_t on_disk_ =
      0;  // chunks that the thread has yet to answer, also of readings that ended
  std::optional<Generation> generation_;  // whose workers may open files
  std::function<void()> finished_;
  OffLoop disk_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_LOGS_LOG_READS_H_
