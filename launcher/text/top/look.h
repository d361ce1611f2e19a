// The state of the screen of `ddprun top`: view, selected row, typed text. Plain values.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_LOOK_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_LOOK_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/text/top/screen.h"

namespace ddprun::top {

enum class View { kJobs, kNodes, kRanks, kText };

// A key's request to the rendezvous.
struct Request {
  enum class Kind { kStop, kSaveAndStop, kDrain, kStacks, kLog };
  Kind kind = Kind::kStacks;
  std::string job;
  std::string host{};  // for kDrain
  int rank = -1;       // for kLog

  bool operator==(const Request&) const = default;
};

struct Look {
  View view = View::kJobs;
  std::string job{};            // for kNodes and kRanks
  std::string node{};           // for kRanks: the key of the only node; empty: all nodes of the job
  std::string filter{};         // hides rows without this text
  bool writing_filter = false;  // keys edit the filter
  std::size_t order = 0;        // index into OrdersOf(view)
  std::string selected{};       // the key of a row
  std::size_t selected_at = 0;  // its position, in case the row disappears
  std::optional<Request> asked;  // waits for "yes"
  std::string answer{};          // the rendezvous's answer to the last request
  std::string trouble{};         // why there is no contact; empty: contact
  Request text_of{};             // for kText: the request
  std::vector<std::string> text{};
  std::size_t text_top = 0;   // first line on the screen
  View before = View::kJobs;  // the view before kText
  bool plain = false;         // for a file: no selection, no keys
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_LOOK_H_
