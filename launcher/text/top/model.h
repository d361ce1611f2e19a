// The content of `ddprun top` and its keys. Snapshots, answers and keys go in; lines and requests
// to the rendezvous come out.
//
// Pure; owned by one thread.
#ifndef DDPRUN_LAUNCHER_TEXT_TOP_MODEL_H_
#define DDPRUN_LAUNCHER_TEXT_TOP_MODEL_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/text/top/key_reader.h"
#include "launcher/text/top/look.h"
#include "launcher/text/top/rows.h"
#include "launcher/text/top/screen.h"
#include "launcher/text/top/snapshot.h"

namespace ddprun::top {

class Model {
 public:
  // `job`: shown first; empty: all jobs.
  Model(std::string endpoint, const std::string& job);

  void TakeSnapshot(Snapshot snapshot);
  void LoseContact(const std::string& why);
  void TakeAnswer(const std::string& answer);
  // Shows stacks or a log on the whole screen until the user leaves the view. Of a log, the
  // end is shown first.
  void TakeText(const Request& request, const std::string& text);
  void Resize(Size size) { size_ = size; }

  // Handles a key. Returns its request to the rendezvous, if any.
  std::optional<Request> TakeKey(const Key& key);
  bool quits() const { return quits_; }

  std::vector<Line> Lines() const;
  // All rows, for a file.
  std::string PlainText() const;

 private:
  std::vector<Row> Rows() const { return RowsOf(look_, snapshot_); }
  void Select(std::size_t index, const std::vector<Row>& rows);
  void Move(const Key& key);
  void Enter();
  void Back();
  void WriteFilter(const Key& key);
  std::optional<Request> Order(char letter);
  std::optional<Request> AskAgain(char letter) const;
  void GoTo(View view);
  std::size_t Page() const;
  // The first line to show so that the end of the text is visible.
  std::size_t LastPage() const;

  const std::string endpoint_;
  Look look_;
  Snapshot snapshot_;
  Size size_;
  bool quits_ = false;
};

}  // namespace ddprun::top

#endif  // DDPRUN_LAUNCHER_TEXT_TOP_MODEL_H_
