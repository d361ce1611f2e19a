// What the screen of `ddprun top` is about now: which view, which row, what is typed. Plain values.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_LOOK_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_LOOK_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/text/top/screen.h"

namespace ddprun::top {

enum class View { kJobs, kNodes, kRanks, kText };

// What a key asks the rendezvous for.
struct Request {
  enum class Kind { kStop, kSaveAndStop, kDrain, kStacks, kLog };
  Kind kind = Kind::kStacks;
  std::string job;
  std::string host{};  // of kDrain
  int rank = -1;       // of kLog

  bool operator==(const Request&) const = default;
};

struct Look {
  View view = View::kJobs;
  std::string job{};             // of kNodes and kRanks
  std::string node{};            // of kRanks: the key of the only one; empty: all of the job
  std::string filter{};          // rows without this text are left out
  bool writing_filter = false;   // keys are text for it
  std::size_t order = 0;         // of the rows: an index into OrdersOf(view)
  std::string selected{};        // the key of a row
  std::size_t selected_at = 0;   // where that row was, for when it is gone
  std::optional<Request> asked;  // waits for "yes"
  std::string answer{};          // of the rendezvous, to the last request
  std::string trouble{};         // why there is no contact; empty: there is
  Request text_of{};             // of kText: what was asked for
  std::vector<std::string> text{};
  std::size_t text_top = 0;   // its first line on the screen
  View before = View::kJobs;  // where kText leads back to
  bool plain = false;         // for a file: no row is selected, and no key works
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_LOOK_H_
