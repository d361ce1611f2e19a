// EventTrace: converts the lines of `ddprun events` into a trace for Perfetto and chrome://tracing.
// Pure.
//
// In the trace, a job is a process, with the job's generations, saves and restarts. Each node is a
// process, with its time in the job and the phases of its restarts. A second agent on the same host
// is a process of its own, host#2. Ranks are threads of their nodes. If a generation has more than
// 256 workers, only ranks that failed or hung are shown. Lines without a job are skipped.
#ifndef DDPRUN_LAUNCHER_TEXT_EVENT_TRACE_H_
#define DDPRUN_LAUNCHER_TEXT_EVENT_TRACE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace ddprun {

class EventTrace {
 public:
  // The next line of the history, oldest first.
  void Add(std::string_view line);
  // The whole trace, as one JSON document. Slices without an end last until `now`, but at least
  // until the last line's time.
  std::string Finish(absl::Time now);

 private:
  using Json = nlohmann::ordered_json;
  // A row of the trace.
  struct Track {
    int process = 0;
    int thread = 0;
    auto operator<=>(const Track&) const = default;
  };
  // An open slice of a track.
  struct Slice {
    std::string name;
    std::int64_t since = 0;  // microseconds
    Json details = Json::object();
  };
  // The ranks of a node in the newest generation.
  struct Ranks {
    std::string node;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  struct Job {
    std::int64_t started = -1;                  // start of the newest generation; -1: not known
    std::set<std::string> nodes;                // the values of `agents`
    std::map<std::string, std::string> agents;  // the node's name, by agent
    std::vector<Ranks> ranks;
    bool over = false;  // agents that join now begin a new job of this name
  };

  void AddOfJob(const std::string& kind, const Json& event);
  void AddRanks(const std::string& kind, const Json& event);
  void EndRanks(const Json& event);
  void AddOfNode(const std::string& kind, const Json& event);
  void AddCause(const Json& event);
  void AddWorker(const Json& worker, const Json& event, const char* what);
  void AddPhases(const Json& event);

  // The name of a node. It is the node's host, or "host#2" if another agent of this host is in the
  // job. `node`: the event itself, or a part of it that describes a node.
  std::string NodeOf(const Json& event, const Json& node);
  void ForgetNode(const Json& event);
  // The process of a job or node; a new one gets its name.
  int ProcessOf(const std::string& job, const std::string& node);
  Track TrackOf(const Json& event, const std::string& node, int thread, const std::string& name);
  Track RankOf(const Json& event, const std::string& node, std::int64_t rank);
  void Begin(Track track, std::string name, Json details = Json::object());
  void End(Track track, Json details = Json::object());
  void Mark(Track track, const std::string& name, Json details);
  void AddSlice(Track track, const Slice& slice, std::int64_t until);
  void Name(const char* what, Track track, const std::string& name);

  std::int64_t now_ = 0;  // of the current line, microseconds
  Json events_ = Json::array();
  std::map<std::pair<std::string, std::string>, int> processes_;  // job, node
  std::map<Track, std::string> threads_;
  std::map<Track, Slice> open_;
  std::map<std::string, Job> jobs_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_EVENT_TRACE_H_
