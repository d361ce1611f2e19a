// Merges equal lines of many workers ("NCCL version 2.22.3") into one.
//
// A line is held for a short time, because other sources may write the same line. It is released as
// soon as each present source has written it, or has written a later line. The lines of a source
// keep their order, and each line is released exactly once, in one group:
//
//     source 0:  hello  a      source 1:  hello  b      gives  {0,1} hello   {0} a   {1} b
//
// Memory is bounded: beyond kMaxHeldBytes the oldest lines are released early.
//
// Pure: time comes in as an argument. Owned and called by one thread.
#ifndef DDPRUN_LAUNCHER_TEXT_LINE_COLLAPSER_H_
#define DDPRUN_LAUNCHER_TEXT_LINE_COLLAPSER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun {

class LineCollapser {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kMaxHeldBytes = 256 << 10;

  struct Group {
    std::vector<int> sources;  // sorted; never empty
    std::string line;          // without newline
  };

  // No line is held for longer than `hold`.
  explicit LineCollapser(std::chrono::milliseconds hold) : hold_(hold) {}

  // Lines wait for sources that have entered and have not left. Both calls take effect at the next
  // Take(). A source may enter again.
  void Enter(int source);
  void Leave(int source);

  // `line` has no newline. `now` never decreases. The source must have entered.
  void Add(int source, std::string_view line, Time now);

  // The groups that need not wait any longer, in order.
  std::vector<Group> Take(Time now);

  // All held groups, in order.
  std::vector<Group> TakeAll();

  // When Take() will release a group without further input; nullopt: nothing is held.
  std::optional<Time> NextDeadline() const;

 private:
  struct Held {
    Group group;
    Time deadline;
  };
  struct Source {
    bool there = false;
    std::int64_t last = -1;  // number of the group with its latest line
  };

  std::int64_t LastThatAllHavePassed() const;
  Group TakeFirst();

  const std::chrono::milliseconds hold_;
  std::map<int, Source> sources_;
  std::deque<Held> held_;        // oldest first
  std::int64_t first_held_ = 0;  // the number of held_.front(); groups are numbered from 0
  std::size_t held_bytes_ = 0;
  std::unordered_map<std::string, std::vector<std::int64_t>> numbers_;  // of held groups, by line
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_TEXT_LINE_COLLAPSER_H_
