// Finds the lines that many workers write alike ("NCCL version 2.22.3") and makes one of them.
//
// A line is held for a short time while the same line of other sources may come. It is given out as
// soon as no source that is there can still say it: each has said it, or has said something after
// it. What a source says keeps its order, and each of its lines is given out exactly once, in one
// group:
//
//     source 0:  hello  a      source 1:  hello  b      gives  {0,1} hello   {0} a   {1} b
//
// Memory is bounded: beyond kMaxHeldBytes the oldest lines go early.
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

  // A source that is there is waited for; one that has left is not. Both take effect at the next
  // Take(). A source that has left may enter again.
  void Enter(int source);
  void Leave(int source);

  // `line` has no newline. `now` never goes back. The source has entered.
  void Add(int source, std::string_view line, Time now);

  // The groups that need not wait any longer, in order.
  std::vector<Group> Take(Time now);

  // Everything that is held, in order.
  std::vector<Group> TakeAll();

  // When Take() has something to give though nothing else happens; nullopt: nothing is held.
  std::optional<Time> NextDeadline() const;

 private:
  struct Held {
    Group group;
    Time deadline;
  };
  struct Source {
    bool there = false;
    std::int64_t last = -1;  // number of the group that has its latest line
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
