// EventPosition: the position of a reader in the event stream. With it the reader continues at
// another rendezvous, whose clock may differ by up to 2 s, and reads no line twice. Only a burst of
// more than 4,096 events in 2 s may repeat lines. Pure.
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
  // Where the next stream must start: events at or after this Unix time may be new. 0: no event was
  // read yet.
  std::int64_t since_ms() const { return since_ms_; }

  // True: `line`, from a stream that starts at since_ms(), is new. From now on it counts as read.
  bool IsNew(const std::string& line);

 private:
  std::int64_t newest_ms_ = 0;
  std::int64_t since_ms_ = 0;
  std::set<std::string> recent_;  // lines that the next stream may repeat
  // The same lines in the order of arrival.
  std::deque<std::pair<std::int64_t, std::string>> by_time_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_EVENT_POSITION_H_
