// The rows of a view of `ddprun top`: which, in which order, and what they say. Pure.
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

// What a row is about. Its pointers are into the Snapshot.
struct Row {
  const JobRow* job = nullptr;
  const NodeRow* node = nullptr;  // null in the view of jobs
  int rank = -1;                  // of the view of ranks
};

// The orders that a view has, by name; the first one is what it begins with.
absl::Span<const absl::string_view> OrdersOf(View view);

// The rows of look.view that its filter leaves, in its order. Of kText none.
std::vector<Row> RowsOf(const Look& look, const Snapshot& snapshot);

// Finds the row again in another snapshot.
std::string KeyOf(const Row& row);

// The job that look is about; null: the rendezvous does not have it.
const JobRow* JobOf(const Look& look, const Snapshot& snapshot);

std::vector<std::string> HeadOf(View view);
std::vector<std::string> CellsOf(View view, const Row& row);
Style StyleOf(View view, const Row& row);

// Steps that a node is behind the newest of its job.
std::int64_t LagOf(const Row& row);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_ROWS_H_
