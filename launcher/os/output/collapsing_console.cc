#include "launcher/os/output/collapsing_console.h"

#include <cstddef>
#include <utility>

namespace ddprun {

CollapsingConsole::CollapsingConsole(EventLoop* loop, std::shared_ptr<ConsoleWriter> console,
                                     Prefix prefix)
    : loop_(loop), console_(std::move(console)), prefix_(std::move(prefix)) {}

CollapsingConsole::~CollapsingConsole() {
  Flush();
  if (timer_) loop_->CancelTimer(*timer_);
}

void CollapsingConsole::Enter(int local_rank) {
  if (++streams_[local_rank] == 1) collapser_.Enter(local_rank);
}

void CollapsingConsole::Leave(int local_rank) {
  if (--streams_[local_rank] > 0) return;
  collapser_.Leave(local_rank);
  ShowDue();
}

void CollapsingConsole::Write(int local_rank, std::string_view lines) {
  constexpr int kBatch = 256;  // so that many short lines of one read do not pile up
  const auto now = EventLoop::Clock::now();
  for (int i = 1; !lines.empty(); ++i) {
    const std::size_t newline = lines.find('\n');
    collapser_.Add(local_rank, lines.substr(0, newline), now);
    lines.remove_prefix(newline == std::string_view::npos ? lines.size() : newline + 1);
    if (i % kBatch == 0) Show(collapser_.Take(now));
  }
  ShowDue();
}

void CollapsingConsole::Flush() { Show(collapser_.TakeAll()); }

void CollapsingConsole::ShowDue() {
  Show(collapser_.Take(EventLoop::Clock::now()));
  const auto deadline = collapser_.NextDeadline();
  if (timer_ || !deadline) return;
  timer_ = loop_->AddTimer(*deadline, [this] {
    timer_.reset();
    ShowDue();
  });
}

void CollapsingConsole::Show(const std::vector<LineCollapser::Group>& groups) {
  // Neighbouring groups of the same workers are written together.
  for (std::size_t first = 0; first < groups.size();) {
    std::string lines;
    std::size_t next = first;
    for (; next < groups.size() && groups[next].sources == groups[first].sources; ++next) {
      lines += groups[next].line;
      lines += '\n';
    }
    console_->Write(prefix_(groups[first].sources), lines);
    first = next;
  }
}

}  // namespace ddprun
