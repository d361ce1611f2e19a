#include "rendezvous/service/job/logs/log_relay.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

std::vector<LogStream> StreamsOf(LogStreams streams) {
  switch (streams) {
    case LogStreams::kStdout:
      return {LogStream::kStdout};
    case LogStreams::kStderr:
      return {LogStream::kStderr};
    case LogStreams::kBoth:
      break;
  }
  return {LogStream::kStdout, LogStream::kStderr};
}

std::string Cut(std::string note) {
  if (note.size() > kMaxLogNoteBytes) note.resize(kMaxLogNoteBytes);
  return note;
}

}  // namespace

// Stores what it reads in KeptLogs. Its text counts as acknowledged at once.
class LogRelay::Keeper final : public LogReader {
 public:
  explicit Keeper(std::weak_ptr<ServedJob> job) : job_(std::move(job)) {}

  void OnText(const LogSource& source, std::string text) override {
    if (const JobPtr job = job_.lock()) job->kept_logs.Add(source, text);
  }
  void OnAbout(const LogSource&, std::string) override {}
  void OnSourceEnd(const LogSource& source, std::string note) override {
    if (note.empty()) OnText(source, "");  // the file was read, even if it is empty
  }
  void OnEnd(absl::Status) override {}

 private:
  const std::weak_ptr<ServedJob> job_;
};

// ---- readers ----

void LogRelay::Read(LogReadId id, const JobPtr& job, LogRequest request,
                    std::shared_ptr<LogReader> reader) {
  if (readers_ >= kMaxLogReaders) {
    reader->OnEnd(absl::ResourceExhaustedError(
        absl::StrCat("the rendezvous serves ", kMaxLogReaders,
                     " readers of logs already, and no more are possible")));
    return;
  }
  Reading reading;
  reading.job = job;
  reading.request = std::move(request);
  reading.reader = std::move(reader);
  Begin(id, std::move(reading));
}

void LogRelay::Begin(LogReadId id, Reading reading) {
  ServedJob& job = *reading.job;
  LogRequest& request = reading.request;
  if (job.machine.finished() && !reading.internal) request.follow = false;  // no worker runs
  if (job.machine.finished() && request.ranks.empty()) ChooseKept(reading);
  const auto generation = request.generation ? request.generation : job.log_places.newest_started();
  absl::Status status;
  if (generation) {
    status = Choose(reading, *generation);
  } else if (!request.follow) {
    status = absl::FailedPreconditionError(
        absl::StrCat("no worker of ", NameOfJob(job.name), " has started yet"));
  }
  if (!status.ok()) {
    reading.reader->OnEnd(status);
    return;
  }
  if (!reading.internal) ++readers_;
  readings_.emplace(id, std::move(reading));
  GoOn(id);
}

void LogRelay::ChooseKept(Reading& reading) {
  const KeptLogs& kept = reading.job->kept_logs;
  LogRequest& request = reading.request;
  const auto newest = reading.job->log_places.newest_started();
  if (kept.ranks().empty()) return;
  // If nothing is kept and a newer generation has started, the request is for the newest
  // generation: the reader at least learns where its files are.
  if (!request.generation && kept.empty() && kept.generation() != newest) return;
  if (request.generation && request.generation != kept.generation()) return;
  request.generation = kept.generation();
  request.ranks = kept.ranks();
  std::string about = absl::StrCat(
      "generation ", request.generation->value, ": what the rendezvous has kept of rank",
      request.ranks.size() == 1 ? " " : "s ",
      absl::StrJoin(request.ranks, ", ",
                    [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value); }),
      "; other ranks: --rank");
  if (newest && newest != request.generation) {
    absl::StrAppend(&about, "; the newest generation: --generation ", newest->value);
  }
  reading.reader->OnAbout({*request.generation, request.ranks.front(), LogStream::kStdout},
                          std::move(about));
}

absl::Status LogRelay::Choose(Reading& reading, Generation generation) {
  const LogRequest& request = reading.request;
  const LogPlaces& places = reading.job->log_places;
  const std::string name = NameOfJob(reading.job->name);
  const auto world_size = places.WorldSize(generation);
  if (!world_size) {
    return absl::FailedPreconditionError(absl::StrCat(
        "generation ", generation.value, " of ", name, " is not known: ",
        places.newest_started() ? absl::StrCat("the rendezvous knows ", places.oldest()->value,
                                               " to ", places.newest_started()->value)
                                : "none has started yet"));
  }
  std::vector<Rank> ranks = request.ranks;
  if (ranks.empty() && *world_size <= static_cast<int>(kMaxLogRanks)) {
    for (int rank = 0; rank < *world_size; ++rank) ranks.push_back(Rank{rank});
  }
  if (ranks.empty() || ranks.size() > kMaxLogRanks) {
    return absl::InvalidArgumentError(absl::StrCat("the logs of at most ", kMaxLogRanks,
                                                   " ranks can be read at once; ", name, " has ",
                                                   *world_size, ": choose some with --rank"));
  }
  for (const Rank rank : ranks) {
    if (rank.value < 0 || rank.value >= *world_size) {
      return absl::FailedPreconditionError(absl::StrCat("generation ", generation.value, " of ",
                                                        name, " has ranks 0 to ", *world_size - 1,
                                                        " (found ", rank.value, ")"));
    }
  }
  const std::vector<LogStream> streams = StreamsOf(request.streams);
  for (const Rank rank : ranks) {
    for (const LogStream stream : streams) reading.to_open.push_back({generation, rank, stream});
  }
  const std::size_t at_once = request.follow ? ranks.size() * streams.size() : 1;
  reading.window = std::min(kMaxLogWindow, kMaxUnreadLogBytes / at_once);
  return absl::OkStatus();
}

void LogRelay::GoOn(LogReadId id) {
  const auto found = readings_.find(id);
  if (found == readings_.end()) return;
  Reading& reading = found->second;
  // Opens one file after the other, so that the text is readable; with `follow`, all files at once.
  while (!reading.to_open.empty() &&
         (reading.request.follow || (reading.open.empty() && reading.unread.empty()))) {
    const LogSource source = reading.to_open.front();
    reading.to_open.pop_front();
    Open(id, reading, source);
  }
  const bool more_comes = reading.stays() && !reading.job->machine.finished();
  if (reading.to_open.empty() && reading.open.empty() && !more_comes) End(id, absl::OkStatus());
}

void LogRelay::Open(LogReadId id, Reading& reading, const LogSource& source) {
  const auto place = reading.job->log_places.Find(source.generation, source.rank);
  if (!place) return reading.reader->OnSourceEnd(source, "its node is not known");
  std::set<LogReadingId>& at_agent = at_agents_[place->agent_id.value];
  if (at_agent.size() >= kMaxLogReadings) {
    return reading.reader->OnSourceEnd(
        source, absl::StrCat("the agent on ", place->host, " reads ", kMaxLogReadings,
                             " files already; try again later"));
  }
  const LogReadingId number{++last_reading_};
  const ReadLog read{source.generation,    place->local_rank,      source.stream,
                     reading.request.span, reading.request.follow, reading.window};
  // An agent without a folder has an older version, which accepts no LogOrder.
  if (place->folder.empty() ||
      !actor_->Order(*reading.job, place->agent_id, LogOrder{number, read})) {
    if (at_agent.empty()) at_agents_.erase(place->agent_id.value);
    return ShowKept(reading, source, *place,
                    absl::StrCat("the agent on ", place->host, " is not connected"));
  }
  at_agent.insert(number);
  reading.open.insert(number);
  files_[number.value] = {id, reading.job, source, *place, reading.window, 0};
}

void LogRelay::ShowKept(Reading& reading, const LogSource& source, const LogPlaces::Place& place,
                        std::string why) {
  const auto kept = reading.job->kept_logs.Find(source, reading.request.span);
  const std::string where = WhereText(place, source);
  if (!kept) {
    return reading.reader->OnSourceEnd(source, Cut(absl::StrCat(why, "; the file is ", where)));
  }
  if (reading.request.span.since) {
    reading.reader->OnAbout(source, absl::StrCat("rank ", source.rank.value,
                                                 ": the rendezvous has kept no times of these "
                                                 "lines, so --since does not shorten them"));
  }
  for (std::size_t at = 0; at < kept->text.size(); at += kMaxLogPieceBytes) {
    std::string text(kept->text.substr(at, kMaxLogPieceBytes));
    reading.unread.emplace_back(LogReadingId{}, text.size());
    reading.reader->OnText(source, std::move(text));
  }
  reading.reader->OnSourceEnd(
      source, kept->whole
                  ? ""
                  : Cut(absl::StrCat(why, "; these are the last ", KeptLogs::kMaxBytes >> 10,
                                     " KiB, which the rendezvous has kept; the file is ", where)));
}

void LogRelay::Acknowledge(LogReadId id, std::size_t bytes) {
  const auto found = readings_.find(id);
  if (found == readings_.end()) return;
  auto& unread = found->second.unread;
  while (bytes > 0 && !unread.empty()) {
    auto& [number, size] = unread.front();
    const std::size_t had = std::min(bytes, size);
    bytes -= had;
    size -= had;
    const LogReadingId of = number;
    if (size == 0) unread.pop_front();
    GiveCredit(of, had);
  }
  GoOn(id);
}

void LogRelay::GiveCredit(LogReadingId number, std::size_t bytes) {
  const auto found = files_.find(number.value);
  if (found == files_.end()) return;  // the file was read to its end, or came from KeptLogs
  File& file = found->second;
  file.owed += bytes;
  const auto reading = readings_.find(file.id);
  if (reading == readings_.end() || file.owed * 2 < reading->second.window) return;
  file.allowed += file.owed;
  actor_->Order(*file.job, file.place.agent_id,
                {number, MoreLog{std::exchange(file.owed, std::size_t{0})}});
}

void LogRelay::Cancel(LogReadId id) {
  const auto reading = readings_.extract(id);
  if (reading.empty()) return;
  if (!reading.mapped().internal) --readers_;
  for (const LogReadingId number : reading.mapped().open) Abandon(number);
}

void LogRelay::Abandon(LogReadingId number) {
  File& file = files_.at(number.value);
  file.id = LogReadId{};
  actor_->Order(*file.job, file.place.agent_id, {number, EndLog{}});
}

void LogRelay::End(LogReadId id, const absl::Status& why) {
  const auto reading = readings_.extract(id);
  if (!reading.mapped().internal) --readers_;
  reading.mapped().reader->OnEnd(why);
}

void LogRelay::EndAll(const absl::Status& why) {
  files_.clear();
  at_agents_.clear();
  readers_ = 0;
  for (auto& [id, reading] : std::exchange(readings_, {})) reading.reader->OnEnd(why);
}

// ---- agents ----

void LogRelay::OnPiece(AgentId agent_id, LogPiece piece) {
  const auto found = files_.find(piece.reading.value);
  if (found == files_.end() || found->second.place.agent_id != agent_id) return;
  if (!piece.text.empty()) Pass(piece.reading, std::move(piece.text));
  if (!piece.last) return;
  const std::string& host = found->second.place.host;
  Close(piece.reading, piece.note.empty() ? "" : absl::StrCat(host, ": ", piece.note));
}

void LogRelay::Pass(LogReadingId number, std::string text) {
  File& file = files_.at(number.value);
  const auto found = readings_.find(file.id);
  if (found == readings_.end()) return;  // sent before the reading was cancelled
  Reading& reading = found->second;
  const std::size_t size = text.size();
  if (size > file.allowed) {  // the agent exceeds its window
    reading.open.erase(number);
    reading.reader->OnSourceEnd(
        file.source, absl::StrCat(file.place.host, ": its agent sent more than it was asked for"));
    Abandon(number);
    return GoOn(found->first);
  }
  file.allowed -= size;
  reading.reader->OnText(file.source, std::move(text));
  if (reading.internal) return GiveCredit(number, size);
  reading.unread.emplace_back(number, size);
}

void LogRelay::Close(LogReadingId number, std::string note) {
  const auto file = files_.extract(number.value);
  if (file.empty()) return;
  const std::uint64_t agent = file.mapped().place.agent_id.value;
  if (const auto at_agent = at_agents_.find(agent); at_agent != at_agents_.end()) {
    at_agent->second.erase(number);
    if (at_agent->second.empty()) at_agents_.erase(at_agent);
  }
  const auto reading = readings_.find(file.mapped().id);
  if (reading == readings_.end()) return;
  reading->second.open.erase(number);
  reading->second.reader->OnSourceEnd(file.mapped().source, Cut(std::move(note)));
  GoOn(reading->first);
}

void LogRelay::OnSessionLost(ServedJob& job, AgentId agent_id) {
  job.log_places.OnGone(agent_id);
  const auto at_agent = at_agents_.extract(agent_id.value);
  if (at_agent.empty()) return;
  for (const LogReadingId number : at_agent.mapped()) {
    const File& file = files_.at(number.value);
    const std::string note =
        absl::StrCat("the agent on ", file.place.host, " has lost contact; the file is ",
                     WhereText(file.place, file.source));
    Close(number, note);
  }
}

// ---- jobs ----

void LogRelay::OnJoin(ServedJob& job, AgentId agent_id, const Join& join) {
  job.log_places.OnJoin(agent_id, join.log_folder);
}

void LogRelay::OnRecord(ServedJob& job, const JobRecord& record) {
  job.log_places.OnFormed(record.generation, record.members);
}

void LogRelay::OnTakenUp(ServedJob& job, const JobRecord& record) {
  OnRecord(job, record);
  // The workers may have been started before this process.
  if (!record.members.empty()) job.log_places.OnStarted(record.generation);
}

std::vector<LogReadId> LogRelay::ReadingsOf(const ServedJob& job) const {
  std::vector<LogReadId> found;
  for (const auto& [id, reading] : readings_) {
    if (reading.job.get() == &job) found.push_back(id);
  }
  return found;
}

void LogRelay::OnEvent(ServedJob& job, const JobEvent& event) {
  if (event.kind == JobEvent::Kind::kFailed && event.cause) {
    Keep(job.shared_from_this(), *event.cause);
  } else if (event.kind == JobEvent::Kind::kStarted) {
    job.log_places.OnStarted(event.generation);
    for (const LogReadId id : ReadingsOf(job)) {
      Reading& reading = readings_.at(id);
      if (!reading.stays()) continue;
      const absl::Status status = Choose(reading, event.generation);
      status.ok() ? GoOn(id) : End(id, status);
    }
  } else if (event.kind == JobEvent::Kind::kFinished) {
    for (const LogReadId id : ReadingsOf(job)) GoOn(id);
  }
}

void LogRelay::Keep(const JobPtr& job, const RootCause& cause) {
  if (kept_bytes_ == 0) return;
  LogRequest request;
  request.ranks = job->kept_logs.Begin(cause);
  if (request.ranks.empty()) return;
  request.generation = cause.failure.generation;
  request.span.bytes = static_cast<std::int64_t>(KeptLogs::kMaxBytes);
  request.follow = true;  // until the agents have written all output of the workers
  BoundKept(job);
  Reading reading;
  reading.job = job;
  reading.request = std::move(request);
  reading.reader = std::make_shared<Keeper>(job);
  reading.internal = true;
  Begin(NewId(), std::move(reading));
}

void LogRelay::BoundKept(const JobPtr& newest) {
  std::erase_if(keeping_, [&](const std::weak_ptr<ServedJob>& of) {
    const JobPtr job = of.lock();
    return job == nullptr || job == newest;
  });
  keeping_.push_back(newest);
  std::size_t bytes = 2 * KeptLogs::kMaxRanks * KeptLogs::kMaxBytes;  // upper bound for `newest`
  for (const std::weak_ptr<ServedJob>& of : keeping_) bytes += of.lock()->kept_logs.bytes();
  while (bytes > kept_bytes_ && keeping_.size() > 1) {
    const JobPtr oldest = keeping_.front().lock();
    bytes -= oldest->kept_logs.bytes();
    oldest->kept_logs.Clear();
    keeping_.pop_front();
  }
}

}  // namespace ddprun
