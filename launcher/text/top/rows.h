// The rows of a view of `ddprun top`: choice, order and content. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_ROWS_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launcher/text/top/look.h"
#include "launcher/text/top/snapshot.h"

namespace ddprun::top {

// The subject of a row. The pointers point into the Snapshot.
struct Row {
  const JobRow* job = nullptr;
  const NodeRow* node = nullptr;  // null in the view of jobs
  int rank = -1;                  // in the view of ranks
};

// The names of a view's orders; the first is the default.
absl::Span<const absl::string_view> OrdersOf(View view);

// The rows of look.view after its filter, in its order. kText has none.
std::vector<Row> RowsOf(const Look& look, const Snapshot& snapshot);

// Identifies the row in later snapshots.
std::string KeyOf(const Row& row);

// The job of `look`; null: the rendezvous does not have it.
const JobRow* JobOf(const Look& look, const Snapshot& snapshot);

std::vector<std::string> HeadOf(View view);
std::vector<std::string> CellsOf(View view, const Row& row);
Style StyleOf(View view, const Row& row);

// How many steps a node is behind the newest node of its job.
std::int64_t LagOf(const Row& row);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_ROWS_H_
