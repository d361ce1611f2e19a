// Translates the messages about log files (rendezvous/core/messages/logs.h).
#include <variant>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/messages/logs.h"
#include "rendezvous/wire/parts.h"
#include "rendezvous/wire/text.h"
#include "worker/contract/overloaded.h"

namespace ddprun::wire {
namespace {

constexpr std::int64_t kMaxWindow = static_cast<std::int64_t>(kMaxLogWindow);

void FillReadLog(const ReadLog& from, v1::ReadLog* to) {
  to->set_generation(from.generation.value);
  to->set_local_rank(from.local_rank.value);
  to->set_stream(from.stream == LogStream::kStdout ? v1::LOG_STREAM_STDOUT : v1::LOG_STREAM_STDERR);
  to->set_follow(from.follow);
  to->set_window(from.window);
  if (from.span.lines) to->set_lines(*from.span.lines);
  if (from.span.bytes) to->set_bytes(*from.span.bytes);
  if (from.span.since) to->set_since_ms(Bounded(*from.span.since));
}

std::int64_t ReadAmount(const char* field, std::int64_t value, std::int64_t most,
                        FieldChecker& check) {
  if (value < 0 || value > most) {
    check.Fail(absl::StrCat(field, " is ", value, ", expected 0 to ", most));
  }
  return value;
}

ReadLog ReadReadLog(const v1::ReadLog& from, FieldChecker& check) {
  ReadLog to;
  to.generation.value = check.Number("ReadLog.generation", from.generation(), 0, kMaxGeneration);
  to.local_rank.value =
      check.Number("ReadLog.local_rank", from.local_rank(), 0, kMaxWorkersPerNode - 1);
  if (from.stream() != v1::LOG_STREAM_STDOUT && from.stream() != v1::LOG_STREAM_STDERR) {
    check.Fail("ReadLog.stream is not set, or is one that this version does not know");
  }
  to.stream = from.stream() == v1::LOG_STREAM_STDERR ? LogStream::kStderr : LogStream::kStdout;
  to.follow = from.follow();
  to.window = check.Number("ReadLog.window", from.window(), 1, kMaxWindow);
  if (from.has_lines()) {
    to.span.lines = ReadAmount("ReadLog.lines", from.lines(), kMaxLogLines, check);
  }
  if (from.has_bytes()) {
    to.span.bytes = ReadAmount("ReadLog.bytes", from.bytes(), kMaxLogBytes, check);
  }
  if (from.has_since_ms()) to.span.since = check.Timeout("ReadLog.since_ms", from.since_ms());
  return to;
}

LogReadingId ReadReading(const char* field, std::uint64_t reading, FieldChecker& check) {
  if (reading == 0) check.Fail(absl::StrCat(field, " is 0"));
  return LogReadingId{reading};
}

}  // namespace

void Fill(const LogOrder& from, v1::LogOrder* to) {
  to->set_reading(from.reading.value);
  std::visit(Overloaded{
                 [&](const ReadLog& read) { FillReadLog(read, to->mutable_read()); },
                 [&](const MoreLog& more) { to->set_more(more.bytes); },
                 [&](const EndLog&) { to->set_end(true); },
             },
             from.what);
}

LogOrder ReadLogOrder(const v1::LogOrder& from, FieldChecker& check) {
  LogOrder to;
  to.reading = ReadReading("LogOrder.reading", from.reading(), check);
  switch (from.what_case()) {
    case v1::LogOrder::kRead:
      to.what = ReadReadLog(from.read(), check);
      break;
    case v1::LogOrder::kMore:
      to.what = MoreLog{
          static_cast<std::size_t>(check.Number("LogOrder.more", from.more(), 1, kMaxWindow))};
      break;
    case v1::LogOrder::kEnd:
      to.what = EndLog{};
      break;
    case v1::LogOrder::WHAT_NOT_SET:
      check.Fail("LogOrder.what is not set, or is one that this version does not know");
      break;
  }
  return to;
}

void Fill(const LogPiece& from, v1::LogPiece* to) {
  to->set_reading(from.reading.value);
  to->set_text(from.text);
  to->set_last(from.last);
  to->set_note(CleanText(from.note, kMaxLogNoteBytes));
}

LogPiece ReadLogPiece(const v1::LogPiece& from, FieldChecker& check) {
  LogPiece to;
  to.reading = ReadReading("LogPiece.reading", from.reading(), check);
  to.text = check.Text("LogPiece.text", from.text(), kMaxLogPieceBytes);
  to.last = from.last();
  to.note = check.Text("LogPiece.note", from.note(), kMaxLogNoteBytes);
  return to;
}

}  // namespace ddprun::wire
