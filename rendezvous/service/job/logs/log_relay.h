// LogRelay: carries the workers' log files from the agents, which read them, to the readers.
//
// A slow reader delays nobody else. Each file has a window: the number of bytes that its agent is
// allowed to send before the reader acknowledges. The windows of one request add up to at most
// kMaxUnreadLogBytes. An agent has at most kMaxLogReadings open files; a file counts until the
// agent reports the file's end or loses its session. So only a few orders ever wait in a session.
//
// If an agent is lost, the reading of its files ends with a note. When a failure ends a generation,
// the last parts of the files of the root cause (if it is a worker) and of its first victims are
// fetched and kept (KeptLogs), so that they can be read after the agents are gone.
//
// Owned by JobLoop, and called only from within it, by one thread at a time, except NewId.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_LOG_RELAY_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_LOG_RELAY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/core/job_event.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/machine/job_record.h"
#include "rendezvous/service/job/log_request.h"
#include "rendezvous/service/job/served_job.h"

namespace ddprun {

class LogRelay {
 public:
  // Sends orders to agents.
  class Actor {
   public:
    // False: the agent has no session.
    virtual bool Order(ServedJob& job, AgentId agent_id, const LogOrder& order) = 0;

   protected:
    ~Actor() = default;
  };

  // `kept_bytes`: limit of the kept logs of all jobs; 0: nothing is kept. `actor` outlives this
  // object.
  LogRelay(Actor* actor, std::size_t kept_bytes) : actor_(actor), kept_bytes_(kept_bytes) {}
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;

  // Any thread.
  LogReadId NewId() { return LogReadId{++last_id_}; }

  // Serves the request, or tells the reader at once why it cannot be served.
  void Read(LogReadId id, const JobPtr& job, LogRequest request, std::shared_ptr<LogReader> reader);
  void Acknowledge(LogReadId id, std::size_t bytes);
  void Cancel(LogReadId id);

  // Call these when the event happens to a job.
  void OnJoin(ServedJob& job, AgentId agent_id, const Join& join);
  void OnRecord(ServedJob& job, const JobRecord& record);
  void OnTakenUp(ServedJob& job, const JobRecord& record);
  void OnEvent(ServedJob& job, const JobEvent& event);
  void OnPiece(AgentId agent_id, LogPiece piece);
  void OnSessionLost(ServedJob& job, AgentId agent_id);
  // Ends every reading with `why`.
  void EndAll(const absl::Status& why);

 private:
  class Keeper;

  // One request.
  struct Reading {
    JobPtr job;
    LogRequest request;
    std::shared_ptr<LogReader> reader;
    bool internal = false;          // of a Keeper, which acknowledges at once
    std::size_t window = 0;         // of each file, in bytes
    std::deque<LogSource> to_open;  // next first
    std::set<LogReadingId> open;
    // Bytes that the reader has not acknowledged, oldest first.
    std::deque<std::pair<LogReadingId, std::size_t>> unread;

    // True: the reading continues in later generations.
    bool stays() const { return request.follow && !request.generation; }
  };
  // A file that an agent reads. Kept until the agent reports the file's end or loses its session.
  struct File {
    LogReadId id;  // of the reading; 0: the reading is over
    JobPtr job;
    LogSource source;
    LogPlaces::Place place;
    std::size_t allowed = 0;  // bytes that the agent may still send
    std::size_t owed = 0;     // acknowledged bytes not yet reported to the agent
  };

  void Begin(LogReadId id, Reading reading);
  // For a request without ranks, to a finished job: chooses the ranks whose logs are kept, and
  // tells the reader.
  static void ChooseKept(Reading& reading);
  // Chooses the request's files of this generation. The error is for the reader.
  static absl::Status Choose(Reading& reading, Generation generation);
  // Opens the next file; with `follow` all files. Ends the reading if no file is left and none can
  // come.
  void GoOn(LogReadId id);
  void Open(LogReadId id, Reading& reading, const LogSource& source);
  // Passes on the kept part of a file that cannot be read, and the reason.
  static void ShowKept(Reading& reading, const LogSource& source, const LogPlaces::Place& place,
                       std::string why);
  void Pass(LogReadingId number, std::string text);
  void Close(LogReadingId number, std::string note);
  void GiveCredit(LogReadingId number, std::size_t bytes);
  // Tells the agent to stop reading this file.
  void Abandon(LogReadingId number);
  void End(LogReadId id, const absl::Status& why);
  std::vector<LogReadId> ReadingsOf(const ServedJob& job) const;
  // Fetches the ends of the log files of the workers in `cause`.
  void Keep(const JobPtr& job, const RootCause& cause);
  void BoundKept(const JobPtr& newest);

  Actor* const actor_;
  const std::size_t kept_bytes_;
  std::atomic<std::uint64_t> last_id_ = 0;

  std::map<LogReadId, Reading> readings_;
  std::size_t readers_ = 0;  // size of readings_ without internal ones
  std::uint64_t last_reading_ = 0;
  std::unordered_map<std::uint64_t, File> files_;                        // by LogReadingId
  std::unordered_map<std::uint64_t, std::set<LogReadingId>> at_agents_;  // open files of each agent
  std::deque<std::weak_ptr<ServedJob>> keeping_;  // jobs with kept logs, oldest first
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_LOG_RELAY_H_
