#include "rendezvous/http/page/state_feed.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/http/page/answers.h"
#include "rendezvous/http/page/clock.h"
#include "rendezvous/http/page/redaction.h"
#include "rendezvous/json/dump.h"
#include "rendezvous/json/root_cause_json.h"
#include "worker/contract/job_name.h"

namespace ddprun::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostHistoryLines = 2000;
constexpr std::size_t kMostHistoryBytes = 1 << 20;

std::int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string ShownLine(const EventLog::Line& line, bool redacted) {
  if (!redacted) return line.json;
  return Dump(RedactedLine(Json::parse(line.json, nullptr, false)), -1);
}

bool Sees(const ViewKey& key, const EventLog::Line& line) {
  return (key.owner.empty() || key.owner == line.owner) && (key.job.empty() || key.job == line.job);
}

}  // namespace

StateFeed::StateFeed(Options options) : options_(std::move(options)) {
  executor_.Start(Now());
  follower_ = options_.events->Follow([this] {
    if (!log_has_more_.exchange(true)) Run([this] { ReadLog(); });
  });
  Run([this] { ReadLog(); });  // events from before the start
}

void StateFeed::Shutdown() {
  options_.events->Unfollow(follower_);
  executor_.Shutdown();
}

void StateFeed::Run(std::function<void()> task) { executor_.Post(std::move(task)); }

void StateFeed::Get(ViewKey key, std::function<void(absl::StatusOr<std::string>)> done) {
  Run([this, key = std::move(key), done = std::move(done)] {
    const auto watched = views_.find(key);
    if (watched != views_.end()) {
      if (auto json = watched->second.view.FreshJson(Now())) return done(*std::move(json));
    }
    Make(key, [done](const absl::StatusOr<Json>& json) {
      if (!json.ok()) return done(json.status());
      done(Dump(*json, -1));
    });
  });
}

void StateFeed::Watch(ViewKey key, SessionEnd until, std::shared_ptr<Responder> responder) {
  Run([this, key = std::move(key), until, responder = std::move(responder)] {
    std::size_t viewers = 0;
    std::size_t neighbours = 0;
    for (const auto& [other, watched] : views_) {
      viewers += watched.size();
      if (other.redacted) neighbours += watched.size();
    }
    if (viewers >= kMostViewers || (key.redacted && neighbours >= kMostViewers - kReserved)) {
      const std::string why =
          absl::StrCat("the page has ", viewers, " viewers, and no more are possible",
                       key.redacted ? " without a session" : "");
      if (options_.on_full) options_.on_full(why);
      return responder->Send(ErrorAnswer(503, why));
    }
    Watched& watched = views_[key];
    watched.newcomers.push_back({until, responder});
    // If nothing is fresh, the view is due, and the end of this turn makes it.
    if (const Stream::Piece state = watched.view.Fresh(Now())) AdmitNewcomers(key, state, &watched);
  });
}

void StateFeed::AdmitNewcomers(const ViewKey& key, const Stream::Piece& state, Watched* watched) {
  if (watched->newcomers.empty()) return;
  Stream::Piece history;
  if (!key.job.empty()) history = SseEvent("history", HistoryOf(key));
  for (const Newcomer& newcomer : std::exchange(watched->newcomers, {})) {
    const std::shared_ptr<Stream> stream =
        newcomer.responder->Open({.status = 200, .content_type = "text/event-stream"});
    if (history != nullptr) stream->Write(history);
    stream->Write(state);
    const std::uint64_t id = ++newest_viewer_;
    watched->view.Add(id, stream, newcomer.until);
    stream->OnClose([this, key, id] {
      Run([this, key, id] {
        const auto found = views_.find(key);
        if (found != views_.end()) found->second.view.Drop(id);
      });
    });
  }
}

std::string StateFeed::HistoryOf(const ViewKey& key) const {
  std::deque<std::string> lines;
  std::size_t bytes = 0;
  EventLog::Filter filter;
  filter.owner = key.owner;
  filter.job = key.job;
  std::uint64_t place = options_.events->Oldest();
  std::shared_ptr<const EventLog::Line> line;
  // Lines from place_ on are sent later, by OnLine.
  while (options_.events->Next(filter, &place, &line).ok() && line != nullptr && place <= place_) {
    lines.push_back(ShownLine(*line, key.redacted));
    bytes += lines.back().size();
    while (lines.size() > kMostHistoryLines || bytes > kMostHistoryBytes) {
      bytes -= lines.front().size();
      lines.pop_front();
    }
  }
  return absl::StrCat("[", absl::StrJoin(lines, ","), "]");
}

// ---- states ----

void StateFeed::Make(const ViewKey& key, Made made) {
  if (key.job.empty()) {
    options_.loop->GetSummaries(
        key.owner,
        [this, key, made = std::move(made)](absl::StatusOr<std::vector<JobLoop::Summary>> found) {
          Run([this, key, made, jobs = std::move(found)]() mutable {
            if (!jobs.ok()) return made(jobs.status());
            made(ListOf(key, &*jobs));
          });
        });
  } else {
    options_.loop->GetStatus(
        key.owner, key.job,
        [this, key, made = std::move(made)](absl::StatusOr<std::vector<JobStatus>> found) {
          Run([this, key, made, jobs = std::move(found)]() mutable {
            if (!jobs.ok()) return made(jobs.status());
            made(JobOf(key, &*jobs));
          });
        });
  }
}

Json StateFeed::ListOf(const ViewKey& key, std::vector<JobLoop::Summary>* jobs) {
  Json json = {{"time", IsoTime(UnixMs())},
               {"daemon", DaemonJson(options_.daemon())},
               {"jobs", Json::array()}};
  for (auto& [job, nodes] : *jobs) {
    if (key.redacted) Redact(&job);
    json["jobs"].push_back(ListedJob(job, nodes, pasts_[job.job]));
  }
  return json;
}

absl::StatusOr<Json> StateFeed::JobOf(const ViewKey& key, std::vector<JobStatus>* jobs) {
  if (jobs->empty()) return absl::NotFoundError(absl::StrCat("there is ", NoSuchJob(key.job)));
  JobStatus& job = jobs->front();
  if (key.redacted) Redact(&job);
  return WholeJob(std::move(job), pasts_[key.job], {Now(), UnixMs()}, key.redacted);
}

void StateFeed::Refresh(const ViewKey& key, View* view, TimePoint now) {
  view->SetAsked();
  Make(key, [this, key, asked = now](const absl::StatusOr<Json>& json) {
    OnMade(key, json, Now() - asked);
  });
}

void StateFeed::OnMade(const ViewKey& key, const absl::StatusOr<Json>& json, Duration cost) {
  const auto found = views_.find(key);
  if (found == views_.end()) return;
  Watched& watched = found->second;
  const TimePoint now = Now();
  if (json.ok()) {
    watched.view.Take(key.job.empty() ? "jobs" : "job", *json, cost, now);
    AdmitNewcomers(key, watched.view.Fresh(now), &watched);
    return;
  }
  for (const Newcomer& newcomer : watched.newcomers) {
    newcomer.responder->Send(ErrorAnswer(json.status()));
  }
  const std::string why = absl::IsNotFound(json.status()) ? "the rendezvous has forgotten the job"
                                                          : std::string(json.status().message());
  watched.view.End(SseEvent("bye", Dump(Json{{"text", why}}, -1)));
  views_.erase(found);
}

// ---- lines ----

void StateFeed::ReadLog() {
  log_has_more_ = false;
  std::shared_ptr<const EventLog::Line> line;
  for (;;) {
    const absl::Status status = options_.events->Next({}, &place_, &line);
    if (absl::IsOutOfRange(status)) {
      place_ = options_.events->Oldest();  // viewers still see the states, but miss some lines
      continue;
    }
    if (!status.ok() || line == nullptr) return;
    OnLine(*line);
  }
}

void StateFeed::OnLine(const EventLog::Line& line) {
  JobPast& past = pasts_[line.job];
  if (past.owner != line.owner) past = {line.owner, {}, {}};  // a new job of this name
  past.generations.OnLine(Json::parse(line.json, nullptr, false), line.unix_ms);
  Stream::Piece whole;
  Stream::Piece redacted;
  for (auto& [key, watched] : views_) {
    if (!Sees(key, line)) continue;
    Stream::Piece& piece = key.redacted ? redacted : whole;
    if (piece == nullptr) piece = SseEvent("line", ShownLine(line, key.redacted));
    watched.view.Send(piece);
  }
}

void StateFeed::TakeSample(const std::vector<JobLoop::Summary>& jobs) {
  const TimePoint now = Now();
  for (auto& [name, past] : pasts_) ++past.absences;
  for (const auto& [job, nodes] : jobs) {
    JobPast& past = pasts_[job.job];
    past.absences = 0;
    if (!job.finished) past.rates.Add(job.measured.steps_per_second, now);
  }
  // A job may have begun after this sample: then the next sample has it.
  for (auto entry = pasts_.begin(); entry != pasts_.end();) {
    entry = entry->second.absences > 1 ? pasts_.erase(entry) : std::next(entry);
  }
}

// ---- the feed's thread ----

TimePoint StateFeed::Tick(TimePoint now) {
  if (now >= next_turn_) {
    next_turn_ = now + StepRates::kInterval;
    if (options_.on_turn) options_.on_turn(now);
  }
  if (now >= next_sample_ && !sampling_) {
    sampling_ = true;
    next_sample_ = now + StepRates::kInterval;
    options_.loop->GetSummaries("", [this](absl::StatusOr<std::vector<JobLoop::Summary>> found) {
      Run([this, jobs = std::move(found)] {
        sampling_ = false;
        if (jobs.ok()) TakeSample(*jobs);  // else the rendezvous may not answer now
      });
    });
  }
  TimePoint next = std::min(next_turn_, sampling_ ? now + StepRates::kInterval : next_sample_);
  for (auto entry = views_.begin(); entry != views_.end();) {
    auto& [key, watched] = *entry;
    watched.view.DropEnded(now);
    if (watched.size() == 0) {
      entry = views_.erase(entry);
      continue;
    }
    if (watched.view.due(now)) Refresh(key, &watched.view, now);
    next = std::min(next, watched.view.next());
    ++entry;
  }
  return next;
}

TimePoint StateFeed::Handler::Handle(std::vector<Task>& tasks, TimePoint now) {
  for (Task& task : tasks) task();
  return feed_->Tick(now);
}

void StateFeed::Handler::HandleLast(std::vector<Task>&, TimePoint) {
  for (auto& [key, watched] : feed_->views_) {
    watched.view.End(SseEvent("bye", R"({"text":"the rendezvous is ending"})"));
  }
  feed_->views_.clear();
}

}  // namespace ddprun::http
