// EventPosition: how far a reader of events has come, so that it goes on at another rendezvous,
// whose clock may differ a little, without a line twice. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_EVENT_POSITION_H_
#define DDPRUN_LAUNCHER_TEXT_EVENT_POSITION_H_

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>

namespace ddprun {

class EventPosition {
 public:
  // Of the next stream: events since then (Unix time) may be new. 0: none was read yet.
  std::int64_t since_ms() const { return since_ms_; }

  // Whether `line`, of a stream since since_ms(), was not read before. It is from now on.
  bool IsNew(const std::string& line);

 private:
  std::int64_t newest_ms_ = 0;
  std::int64_t since_ms_ = 0;
  std::set<std::string> recent_;                              // those that may come again
  std::deque<std::pair<std::int64_t, std::string>> by_time_;  // the same, as they came
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_EVENT_POSITION_H_
