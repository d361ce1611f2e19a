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
// finished. A collective; `body` must not contain one. The wait is bound by Options::timeout.
//
// If the main rank throws, no other rank runs `body`: the main rank gets its own exception back,
// and every other rank gets AgreedError with the main rank's text.
void main_first(const Context& ctx, const std::function<void()>& body, Main main = Main::kJob);

// The same as a section of code:
//
//   {
//     ddp::MainFirst section(ctx);  // here the others wait
//     dataset = open_or_download();
//   }                               // here the main rank lets them go
//
// The constructor and the destructor of one object together are one collective. If the main rank
// leaves the section by an exception, the others get AgreedError from the constructor: prefer
// main_first(), whose error has the text.
class MainFirst {
 public:
  explicit MainFirst(const Context& ctx, Main main = Main::kJob);
  // Throws CollectiveError on the main rank, unless an exception is already on its way.
  ~MainFirst() noexcept(false);
  MainFirst(const MainFirst&) = delete;
  MainFirst& operator=(const MainFirst&) = delete;

 private:
  const Context& ctx_;  // outlives this object
  const bool is_main_;
  const int exceptions_at_start_;
};

// Writes `text` and a newline to stderr on rank 0, in one write; does nothing elsewhere. Not a
// collective; any thread.
void log_rank0(const Context& ctx, const std::string& text);

// `out` on rank 0, elsewhere a stream that drops everything: `ddp::on_rank0(ctx, std::cout) <<
// loss`. Not a collective; what is dropped may come from any thread.
std::ostream& on_rank0(const Context& ctx, std::ostream& out);

}  // namespace ddp

#endif  // DDP_MAIN_FIRST_H_
