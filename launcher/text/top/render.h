// The lines of `ddprun top`. Pure.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_RENDER_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_RENDER_H_

#include <string>
#include <vector>

#include "launcher/text/top/look.h"
#include "launcher/text/top/rows.h"
#include "launcher/text/top/screen.h"
#include "launcher/text/top/snapshot.h"

namespace ddprun::top {

// At most size.rows lines, the selected row among them. `rows`: from RowsOf(look, snapshot).
std::vector<Line> Render(const std::string& endpoint, const Look& look, const Snapshot& snapshot,
                         const std::vector<Row>& rows, Size size);

// The number of text lines (View::kText) that fit.
std::size_t TextRoom(Size size);

// The index of the selected row in `rows`; if its key is gone, the row now at its place.
std::size_t SelectedIn(const Look& look, const std::vector<Row>& rows);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_RENDER_H_
