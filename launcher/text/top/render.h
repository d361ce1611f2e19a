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

// At most size.rows lines; `rows` are RowsOf(look, snapshot). The selected row is among
// them.
std::vector<Line> Render(const std::string& endpoint, const Look& look, const Snapshot& snapshot,
                         const std::vector<Row>& rows, Size size);

// How many lines of a text (View::kText) there is room for.
std::size_t TextRoom(Size size);

// Where the selected row is in `rows`; where its key is gone, the row that has its place now.
std::size_t SelectedIn(const Look& look, const std::vector<Row>& rows);

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_RENDER_H_
