// For code that one rank runs before the other ranks, or that only one rank runs: downloads,
// caches, log lines.
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

// Runs `body` on every rank, first on the main rank. The other ranks begin after the main rank has
// finished, so they find its files. With Main::kNode they begin after the main ranks of all nodes
// have finished. This function is a collective. `body` must not contain a collective. Each wait is
// limited by Options::timeout.
//
// If `body` throws on a main rank, the ranks that are not main do not run it. The failed main rank
// throws its own exception again. Every other rank throws AgreedError, with the text of the lowest
// failing rank.
void main_first(const Context& ctx, const std::function<void()>& body, Main main = Main::kJob);

// main_first() as a section of code:
//
//   {
//     ddp::MainFirst section(ctx);  // here the others wait
//     dataset = open_or_download();
//   }                               // here the main rank lets them go
//
// The constructor and the destructor of an object together are one collective. If an exception
// leaves the section on the main rank, the constructors of the other ranks throw AgreedError. That
// error does not have the exception's text, so prefer main_first().
class MainFirst {
 public:
  explicit MainFirst(const Context& ctx, Main main = Main::kJob);
  // On a main rank it may throw CollectiveError, or AgreedError if the main rank of another node
  // failed (Main::kNode). It throws nothing while an exception unwinds the stack.
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

// Returns `out` on rank 0. On other ranks it returns a stream that drops everything. Only the
// calling thread may use that stream. For example: `ddp::on_rank0(ctx, std::cout) << loss`. Not a
// collective; any thread.
std::ostream& on_rank0(const Context& ctx, std::ostream& out);

}  // namespace ddp

#endif  // DDP_MAIN_FIRST_H_
