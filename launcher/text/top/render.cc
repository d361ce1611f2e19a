#include "launcher/text/top/render.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "launcher/text/printable.h"
#include "launcher/text/status_table.h"
#include "launcher/text/top/story.h"
#include "worker/contract/job_name.h"

namespace ddprun::top {
namespace {

std::size_t HeightOf(Size size) { return static_cast<std::size_t>(std::max(size.rows, 4)); }

std::string QuestionOf(const Request& request) {
  const std::string job = NameOfJob(request.job);
  switch (request.kind) {
    case Request::Kind::kStop:
      return absl::StrCat("Stop ", job, " now? Steps since its last checkpoint are lost.");
    case Request::Kind::kSaveAndStop:
      return absl::StrCat("Save and stop ", job, "?");
    case Request::Kind::kDrain:
      return absl::StrCat("Drain ", request.host, "? ", job,
                          " saves where it can, and goes on without it.");
    case Request::Kind::kStacks:
    case Request::Kind::kLog:
      break;
  }
  return "";
}

std::string KeysOf(const Look& look) {
  switch (look.view) {
    case View::kJobs:
      return "enter job  s sort  / filter  t stacks  w save and stop  x stop  q quit";
    case View::kNodes:
      return "enter ranks  r all ranks  s sort  / filter  t stacks  d drain  w save and stop  "
             "x stop  esc back  q quit";
    case View::kRanks:
      return "l log  s sort  / filter  t stacks  w save and stop  x stop  esc back  q quit";
    case View::kText:
      return absl::StrCat(look.text_of.kind == Request::Kind::kLog ? "l" : "t",
                          " again  up, down, page up, page down, home, end  esc back  q quit");
  }
  return "";
}

// The line under the rows: a question, typed text or an answer; else the keys.
Line LastLine(const Look& look) {
  if (look.asked) {
    return {absl::StrCat(QuestionOf(*look.asked), " y: yes; any other key: no"), Style::kSelected};
  }
  if (look.writing_filter) {
    return {absl::StrCat("filter: ", look.filter, "_  enter: keep it  esc: show all"),
            Style::kTitle};
  }
  if (!look.answer.empty()) return {look.answer, Style::kTitle};
  return {KeysOf(look), Style::kQuiet};
}

Line FirstLine(const std::string& endpoint, const Look& look, const Snapshot& snapshot) {
  if (!look.trouble.empty()) {
    return {absl::StrCat("no contact: ", look.trouble, "; the screen shows the last known state"),
            Style::kBad};
  }
  return {absl::StrCat("rendezvous ", endpoint, ": version ", snapshot.version, ", up ",
                       Age(snapshot.uptime_ms), ", ", snapshot.jobs.size(),
                       snapshot.jobs.size() == 1 ? " job" : " jobs"),
          Style::kTitle};
}

std::string JobCounts(const JobRow& job) {
  const std::string spares =
      job.spares == 0 ? ""
                      : absl::StrCat(" and ", job.spares, job.spares == 1 ? " spare" : " spares");
  const auto or_dash = [](const auto& number) { return number ? absl::StrCat(*number) : "-"; };
  return absl::StrCat(job.nodes_without_spares(), " of ",
                      job.min_nodes == job.max_nodes
                          ? absl::StrCat(job.max_nodes)
                          : absl::StrCat(job.min_nodes, ":", job.max_nodes),
                      " nodes", spares, "; ", job.world_size, " workers; step ", or_dash(job.step),
                      job.steps_per_s ? absl::StrFormat(" (%.3g steps/s)", *job.steps_per_s) : "",
                      ", checkpoint ", or_dash(job.checkpoint));
}

// Adds the lines above the rows; a job's story comes first.
void AddHead(const Look& look, const Snapshot& snapshot, std::vector<Line>* lines) {
  if (look.view == View::kJobs) return;
  const JobRow* const job = JobOf(look, snapshot);
  if (job == nullptr) {
    lines->push_back({absl::StrCat("the rendezvous has ", NoSuchJob(look.job)), Style::kBad});
    return;
  }
  lines->push_back({absl::StrCat(NameOfJob(job->job), ": ", StateWord(*job)), MoodOf(*job)});
  lines->push_back({absl::StrCat("  now         ", NowText(*job))});
  lines->push_back({absl::StrCat("  root cause  ", CauseText(*job))});
  lines->push_back({absl::StrCat("  next        ", NextText(*job))});
  lines->push_back({absl::StrCat("  ", JobCounts(*job)), Style::kQuiet});
}

std::string JoinCells(const std::vector<std::string>& cells,
                      const std::vector<std::size_t>& widths) {
  std::string line = " ";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += i + 1 < cells.size() ? Fill(cells[i], widths[i]) + "  " : cells[i];
  }
  return line;
}

// Adds the visible rows under their heads.
void AddRows(const Look& look, const std::vector<Row>& rows, std::size_t room,
             std::vector<Line>* lines) {
  const auto orders = OrdersOf(look.view);
  const std::size_t selected = SelectedIn(look, rows);
  // Scrolls by whole screens, so that fewer lines change.
  const std::size_t first = room == 0 ? 0 : selected / room * room;
  std::vector<std::vector<std::string>> shown = {HeadOf(look.view)};
  for (std::size_t i = first; i < std::min(first + room, rows.size()); ++i) {
    shown.push_back(CellsOf(look.view, rows[i]));
  }
  std::vector<std::size_t> widths(shown.front().size());
  for (const auto& cells : shown) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], Width(cells[i]));
  }
  widths.front() = std::min<std::size_t>(widths.front(), 32);
  lines->push_back(
      {absl::StrCat("rows ", rows.empty() ? 0 : first + 1, " to ", first + shown.size() - 1, " of ",
                    rows.size(), ", by ", orders[look.order % orders.size()],
                    look.filter.empty() ? "" : ", with \"", look.filter,
                    look.filter.empty() ? "" : "\""),
       Style::kQuiet});
  lines->push_back({JoinCells(shown.front(), widths), Style::kHead});
  for (std::size_t i = 1; i < shown.size(); ++i) {
    const std::size_t row = first + i - 1;
    Line line{JoinCells(shown[i], widths), StyleOf(look.view, rows[row])};
    if (row == selected && !look.plain) {
      line.text[0] = '>';
      line.style = Style::kSelected;
    }
    lines->push_back(std::move(line));
  }
}

std::string TextTitle(const Request& request) {
  const std::string job = NameOfJob(request.job);
  if (request.kind != Request::Kind::kLog) return absl::StrCat("stacks of ", job);
  return absl::StrCat("log of rank ", request.rank, " of ", job);
}

void AddText(const Look& look, std::size_t room, std::vector<Line>* lines) {
  lines->push_back({Printable(TextTitle(look.text_of)), Style::kHead});
  for (std::size_t i = look.text_top; i < std::min(look.text_top + room, look.text.size()); ++i) {
    lines->push_back({look.text[i]});
  }
}

}  // namespace

std::size_t TextRoom(Size size) { return HeightOf(size) - 3; }

std::size_t SelectedIn(const Look& look, const std::vector<Row>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (KeyOf(rows[i]) == look.selected) return i;
  }
  return rows.empty() ? 0 : std::min(look.selected_at, rows.size() - 1);
}

std::vector<Line> Render(const std::string& endpoint, const Look& look, const Snapshot& snapshot,
                         const std::vector<Row>& rows, Size size) {
  const std::size_t height = HeightOf(size);
  std::vector<Line> lines = {FirstLine(endpoint, look, snapshot)};
  if (look.view == View::kText) {
    AddText(look, TextRoom(size), &lines);
  } else {
    AddHead(look, snapshot, &lines);
    const std::size_t above = lines.size() + 3;  // with the two heads and the last line
    AddRows(look, rows, height > above ? height - above : 0, &lines);
  }
  lines.resize(std::max(height - 1, std::size_t{1}));
  lines.push_back(LastLine(look));
  return lines;
}

}  // namespace ddprun::top
