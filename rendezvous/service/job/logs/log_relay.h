// LogRelay: carries the workers' log files from the agents, which read them, to those who asked.
//
// A reader that is slow holds up nobody: each file has a window of bytes that its agent may send
// before the reader has acknowledged any, and the windows of one request add up to
// kMaxUnreadLogBytes. An agent has at most kMaxLogReadings open, counted until it has said that one
// is over: so its session never has more than a few orders waiting, whatever readers do.
//
// A file whose agent is lost ends with a note. When a generation ends for a worker, the ends of its
// files and of its victims' are fetched and kept (KeptLogs), for when their agents are gone.
//
// Owned by JobLoop; from within it only, by one thread at a time, but for NewId.
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

  // `kept_bytes`: of all jobs; 0: nothing is kept. `actor` outlives this object.
  LogRelay(Actor* actor, std::size_t kept_bytes) : actor_(actor), kept_bytes_(kept_bytes) {}
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;

  // Any thread.
  LogReadId NewId() { return LogReadId{++last_id_}; }

  // Serves the request from now on, or tells the reader at once why not.
  void Read(LogReadId id, const JobPtr& job, LogRequest request, std::shared_ptr<LogReader> reader);
  void Acknowledge(LogReadId id, std::size_t bytes);
  void Cancel(LogReadId id);

  // What happens to the jobs.
  void OnJoin(ServedJob& job, AgentId agent_id, const Join& join);
  void OnRecord(ServedJob& job, const JobRecord& record);
  void OnTakenUp(ServedJob& job, const JobRecord& record);
  void OnEvent(ServedJob& job, const JobEvent& event);
  void OnPiece(AgentId agent_id, LogPiece piece);
  void OnSessionLost(ServedJob& job, AgentId agent_id);
  // Every reader is told.
  void EndAll(const absl::Status& why);

 private:
  class Keeper;

  // One request.
  struct Reading {
    JobPtr job;
    LogRequest request;
    std::shared_ptr<LogReader> reader;
    bool internal = false;          // a Keeper's, which takes everything at once
    std::size_t window = 0;         // of each file
    std::deque<LogSource> to_open;  // the next one first
    std::set<LogReadingId> open;
    // What the reader has not acknowledged, the oldest first.
    std::deque<std::pair<LogReadingId, std::size_t>> unread;

    // Files of a later generation may follow.
    bool stays() const { return request.follow && !request.generation; }
  };
  // One file that an agent reads. Stays until the agent has said that it is over.
  struct File {
    LogReadId id;  // of the reading; 0: nobody wants it any more
    JobPtr job;
    LogSource source;
    LogPlaces::Place place;
    std::size_t allowed = 0;  // bytes that may still come
    std::size_t owed = 0;     // acknowledged, and the agent was not told yet
  };

  void Begin(LogReadId id, Reading reading);
  // What files of this generation the request is about; the error is for its reader.
  static absl::Status Choose(Reading& reading, Generation generation);
  // Opens what may be opened now; ends the reading when nothing is left.
  void GoOn(LogReadId id);
  void Open(LogReadId id, Reading& reading, const LogSource& source);
  // What there is of a file that cannot be read.
  static void ShowKept(Reading& reading, const LogSource& source, const LogPlaces::Place& place,
                       std::string why);
  void Pass(LogReadingId number, std::string text);
  void Close(LogReadingId number, std::string note);
  void GiveCredit(LogReadingId number, std::size_t bytes);
  // Nobody wants this file any more.
  void Abandon(LogReadingId number);
  void End(LogReadId id, const absl::Status& why);
  std::vector<LogReadId> ReadingsOf(const ServedJob& job) const;
  // The end of what a worker wrote that a generation ended for.
  void Keep(const JobPtr& job, const RootCause& cause);
  void BoundKept(const JobPtr& newest);

  Actor* const actor_;
  const std::size_t kept_bytes_;
  std::atomic<std::uint64_t> last_id_ = 0;

  std::map<LogReadId, Reading> readings_;
  std::size_t readers_ = 0;  // of readings_, without the internal ones
  std::uint64_t last_reading_ = 0;
  std::unordered_map<std::uint64_t, File> files_;                        // by LogReadingId
  std::unordered_map<std::uint64_t, std::set<LogReadingId>> at_agents_;  // that an agent has open
  std::deque<std::weak_ptr<ServedJob>> keeping_;  // jobs of which something is kept, oldest first
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_LOGS_LOG_RELAY_H_
