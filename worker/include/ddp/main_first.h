// Code that one rank runs before the others, or alone: downloads, caches, log lines.
#ifndef DDP_MAIN_FIRST_H_
#define DDP_MAIN_FIRST_H_

#include <ddp/context.h>

#include <functional>
#include <ostream>
#include <string>

namespace ddp {

// Which rank goes first.
enum class Main {
  kJob,   // rank 0
  kNode,  // local rank 0 of each node, all nodes at the same time: for folders that nodes do not
          // share
};

// Runs `body` on every rank, first on the main rank. The other ranks begin when the main rank has
// finished, and find its files. With Main::kNode they begin when the main ranks of all nodes have
// finished. A collective; `body` must not contain one. Each wait is limited by Options::timeout.
//
// If a main rank throws, the ranks that are not main do not run `body`. That main rank gets its own
// exception back; every other rank gets AgreedError with the text of the lowest failing rank.
void main_first(const Context& ctx, const std::function<void()>& body, Main main = Main::kJob);

// main_first() as a section of code:
//
//   {
//     ddp::MainFirst section(ctx);  // here the others wait
//     dataset = open_or_download();
//   }                               // here the main rank lets them go
//
// Constructor and destructor of one object are one collective. If the main rank leaves the section
// by an exception, the others get AgreedError from the constructor, without its text: prefer
// main_first().
class MainFirst {
 public:
  explicit MainFirst(const Context& ctx, Main main = Main::kJob);
  // On the main rank it may throw CollectiveError, unless an exception is already in flight.
  ~MainFirst() noexcept(false);
  MainFirst(const MainFirst&) = delete;
  MainFirst& operator=(const MainFirst&) = delete;

 private:
  const Context& ctx_;  // outlives this object
  const bool is_main_;
  const int exceptions_at_start_;
};

// On rank 0, writes `text` and a newline to stderr in one write. No effect on other ranks. Not a
// collective; any thread.
void log_rank0(const Context& ctx, const std::string& text);

// Returns `out` on rank 0, and a stream that drops everything on other ranks: `ddp::on_rank0(ctx,
// std::cout) << loss`. Not a collective; any thread may write to the dropping stream.
std::ostream& on_rank0(const Context& ctx, std::ostream& out);

}  // namespace ddp

#endif  // DDP_MAIN_FIRST_H_
