// A console behind a LineCollapser: equal lines that workers of this node write at about the same
// time appear once, with the set of their ranks in the prefix ("[default0-7]:NCCL version 2.22.3").
//
// Belongs to the agent and its loop's thread.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_COLLAPSING_CONSOLE_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_COLLAPSING_CONSOLE_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/os/event_loop.h"
#include "launcher/os/output/console_writer.h"
#include "launcher/text/line_collapser.h"

namespace ddprun {

class CollapsingConsole {
 public:
  // A line is delayed by at most this time.
  static constexpr std::chrono::milliseconds kHold{50};

  // The prefix of a line that these local ranks wrote, with its colour if there is one.
  using Prefix = std::function<std::string(const std::vector<int>& local_ranks)>;

  // `loop` must outlive this object.
  CollapsingConsole(EventLoop* loop, std::shared_ptr<ConsoleWriter> console, Prefix prefix);
  // Calls Flush().
  ~CollapsingConsole();
  CollapsingConsole(const CollapsingConsole&) = delete;
  CollapsingConsole& operator=(const CollapsingConsole&) = delete;

  // Call these when a stream of this worker begins or ends. A worker may have both streams here.
  void Enter(int local_rank);
  void Leave(int local_rank);

  // `lines`: from LineSplitter.
  void Write(int local_rank, std::string_view lines);

  // Shows all held lines.
  void Flush();

 private:
  void ShowDue();
  void Show(const std::vector<LineCollapser::Group>& groups);

  EventLoop* const loop_;
  const std::shared_ptr<ConsoleWriter> console_;
  const Prefix prefix_;
  LineCollapser collapser_{kHold};
  std::map<int, int> streams_;  // number of open streams, by local rank
  std::optional<EventLoop::TimerId> timer_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_COLLAPSING_CONSOLE_H_
