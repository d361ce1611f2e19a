// EventTrace: converts the lines of `ddprun events` into a trace for Perfetto and chrome://tracing.
// Pure.
//
// A job is a process with its generations, saves and restarts. Each node is a process with its time
// in the job and the phases of its restarts; a rank that failed or hung is a thread there. Other
// lines are skipped.
#ifndef DDPRUN_LAUNCHER_TEXT_EVENT_TRACE_H_
#define DDPRUN_LAUNCHER_TEXT_EVENT_TRACE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

class EventTrace {
 public:
  // The next line of the history, oldest first.
  void Add(std::string_view line);
  // The whole trace, one JSON document. Slices without an end last until the last line's time.
  std::string Finish();

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

  void AddOfJob(const std::string& kind, const Json& event);
  void AddOfNode(const std::string& kind, const Json& event);
  void AddCause(const Json& event);
  void AddWorker(const Json& worker, const Json& event, const char* what);
  void AddPhases(const Json& event);

  // The process of a job or node; a new one gets its name.
  int ProcessOf(const std::string& job, const std::string& host);
  Track TrackOf(const Json& event, const std::string& host, int thread, const std::string& name);
  void Begin(Track track, std::string name, Json details = Json::object());
  void End(Track track, Json details = Json::object());
  void Mark(Track track, const std::string& name, Json details);
  void AddSlice(Track track, const Slice& slice, std::int64_t until);
  void Name(const char* what, Track track, const std::string& name);

  std::int64_t now_ = 0;  // of the current line, microseconds
  Json events_ = Json::array();
  std::map<std::pair<std::string, std::string>, int> processes_;  // job, host
  std::map<Track, std::string> threads_;
  std::map<Track, Slice> open_;
  std::map<std::string, std::int64_t> started_;  // the newest generation of a job
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_EVENT_TRACE_H_
