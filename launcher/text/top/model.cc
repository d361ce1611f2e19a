#include "launcher/text/top/model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/text/printable.h"
#include "launcher/text/top/render.h"

namespace ddprun::top {
namespace {

constexpr std::size_t kMostFilter = 64;  // bytes

using Name = Key::Name;

// The host; its address if another node of the job is on the same host.
std::string NameToDrain(const JobRow& job, const NodeRow& node) {
  const auto same = [&](const NodeRow& other) { return other.host == node.host; };
  return std::count_if(job.nodes.begin(), job.nodes.end(), same) > 1 ? node.address : node.host;
}

}  // namespace

Model::Model(std::string endpoint, const std::string& job) : endpoint_(std::move(endpoint)) {
  if (!job.empty()) {
    look_.view = View::kNodes;
    look_.job = job;
  }
}

void Model::TakeSnapshot(Snapshot snapshot) {
  snapshot_ = std::move(snapshot);
  look_.trouble.clear();
  const std::vector<Row> rows = Rows();
  Select(SelectedIn(look_, rows), rows);
}

void Model::LoseContact(const std::string& why) { look_.trouble = Printable(why); }

void Model::TakeAnswer(const std::string& answer) { look_.answer = Printable(answer); }

void Model::TakeText(const Request& request, const std::string& text) {
  if (look_.view != View::kText) look_.before = look_.view;
  look_.view = View::kText;
  look_.text_of = request;
  look_.text.clear();
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    look_.text.push_back(Printable(line));
  }
  look_.text_top = request.kind == Request::Kind::kLog ? LastPage() : 0;
  look_.answer.clear();
}

std::vector<Line> Model::Lines() const {
  return Render(endpoint_, look_, snapshot_, Rows(), size_);
}

std::string Model::PlainText() const {
  Look look = look_;
  look.plain = true;
  const std::vector<Row> rows = Rows();
  std::vector<Line> lines =
      Render(endpoint_, look, snapshot_, rows, {static_cast<int>(rows.size()) + 16, size_.columns});
  lines.pop_back();  // the keys
  while (lines.back().text.empty()) lines.pop_back();
  std::string text;
  for (const Line& line : lines) absl::StrAppend(&text, line.text, "\n");
  return text;
}

std::optional<Request> Model::TakeKey(const Key& key) {
  look_.answer.clear();
  if (look_.asked) {
    const Request asked = *std::exchange(look_.asked, std::nullopt);
    return key == Key{Name::kText, 'y'} ? std::optional(asked) : std::nullopt;
  }
  if (look_.writing_filter) {
    WriteFilter(key);
    return std::nullopt;
  }
  switch (key.name) {
    case Name::kEnter:
      Enter();
      break;
    case Name::kEscape:
    case Name::kErase:
      Back();
      break;
    case Name::kText:
      return Order(key.text);
    default:
      Move(key);
  }
  return std::nullopt;
}

std::optional<Request> Model::Order(char letter) {
  if (letter == 'q') {
    quits_ = true;
    return std::nullopt;
  }
  if (look_.view == View::kText) return AskAgain(letter);
  const std::vector<Row> rows = Rows();
  Row selected;
  if (!rows.empty()) {
    selected = rows[SelectedIn(look_, rows)];
  } else if (look_.view != View::kJobs) {
    selected.job = JobOf(look_, snapshot_);
  }
  if (letter == 's') {
    look_.order = (look_.order + 1) % OrdersOf(look_.view).size();
  } else if (letter == '/') {
    look_.writing_filter = true;
  } else if (letter == 'r' && look_.view == View::kNodes) {
    look_.node.clear();
    GoTo(View::kRanks);
  }
  if (selected.job == nullptr) return std::nullopt;
  const std::string& job = selected.job->job;
  if (letter == 't') return Request{Request::Kind::kStacks, job};
  if (letter == 'l' && selected.rank >= 0) {
    return Request{Request::Kind::kLog, job, "", selected.rank};
  }
  if (selected.job->over()) return std::nullopt;
  if (letter == 'x') look_.asked = Request{Request::Kind::kStop, job};
  if (letter == 'w') look_.asked = Request{Request::Kind::kSaveAndStop, job};
  if (letter == 'd' && look_.view == View::kNodes && selected.node != nullptr) {
    look_.asked = Request{Request::Kind::kDrain, job, NameToDrain(*selected.job, *selected.node)};
  }
  return std::nullopt;
}

// The key that opened a text reloads it.
std::optional<Request> Model::AskAgain(char letter) const {
  const char key = look_.text_of.kind == Request::Kind::kLog ? 'l' : 't';
  return letter == key ? std::optional(look_.text_of) : std::nullopt;
}

void Model::WriteFilter(const Key& key) {
  if (key.name == Name::kText) {
    if (look_.filter.size() < kMostFilter) look_.filter += key.text;
  } else if (key.name == Name::kErase && !look_.filter.empty()) {
    look_.filter.pop_back();
  } else if (key.name == Name::kEscape) {
    look_.filter.clear();
    look_.writing_filter = false;
  } else if (key.name == Name::kEnter) {
    look_.writing_filter = false;
  }
}

void Model::Enter() {
  const std::vector<Row> rows = Rows();
  if (rows.empty()) return;
  const Row& row = rows[SelectedIn(look_, rows)];
  if (look_.view == View::kJobs) {
    look_.job = row.job->job;
    GoTo(View::kNodes);
  } else if (look_.view == View::kNodes) {
    look_.node = KeyOf(row);
    GoTo(View::kRanks);
  }
}

void Model::Back() {
  if (look_.view == View::kText) {
    look_.view = look_.before;
  } else if (!look_.filter.empty()) {
    look_.filter.clear();
  } else if (look_.view == View::kRanks) {
    const std::string node = look_.node;
    GoTo(View::kNodes);
    look_.selected = node;
  } else if (look_.view == View::kNodes) {
    const std::string job = look_.job;
    GoTo(View::kJobs);
    look_.selected = job;
  }
}

void Model::GoTo(View view) {
  look_.view = view;
  look_.filter.clear();
  look_.order = 0;
  look_.selected.clear();
  look_.selected_at = 0;
}

void Model::Select(std::size_t index, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  look_.selected_at = std::min(index, rows.size() - 1);
  look_.selected = KeyOf(rows[look_.selected_at]);
}

void Model::Move(const Key& key) {
  const std::vector<Row> rows = Rows();
  const bool text = look_.view == View::kText;
  const std::size_t all = text ? look_.text.size() : rows.size();
  const std::size_t at = text ? look_.text_top : SelectedIn(look_, rows);
  const std::size_t last = all == 0 ? 0 : all - 1;
  std::size_t to = at;
  if (key.name == Name::kUp) to = at - std::min<std::size_t>(at, 1);
  if (key.name == Name::kDown) to = at + 1;
  if (key.name == Name::kPageUp) to = at - std::min(at, Page());
  if (key.name == Name::kPageDown) to = at + Page();
  if (key.name == Name::kHome) to = 0;
  if (key.name == Name::kEnd) to = text ? LastPage() : last;
  to = std::min(to, last);
  if (text) {
    look_.text_top = to;
  } else {
    Select(to, rows);
  }
}

std::size_t Model::LastPage() const {
  return look_.text.size() - std::min(look_.text.size(), TextRoom(size_));
}

std::size_t Model::Page() const { return static_cast<std::size_t>(std::max(size_.rows - 10, 1)); }

}  // namespace ddprun::top
