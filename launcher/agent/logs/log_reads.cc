#include "launcher/agent/logs/log_reads.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

// Unanswered chunks. Readings in progress have at most half of this number. More are reached only
// if the disk has hung for a while.
constexpr std::size_t kMaxOnDisk = 2 * kMaxLogReadings;

}  // namespace

LogReads::LogReads(Options options, EventLoop* loop, std::shared_ptr<WrittenFiles> written)
    : options_(std::move(options)),
      loop_(loop),
      written_(std::move(written)),
      disk_(loop, "ddprun-readlogs") {}

LogReads::~LogReads() {
  written_->Silence();
  for (auto& [id, reading] : readings_) LetGo(reading);
}

void LogReads::Perform(const Header& header, const LogOrder& order, const Send& send) {
  const LogReadingId id = order.reading;
  const auto found = readings_.find(id);
  std::visit(Overloaded{
                 [&](const ReadLog& read) {
                   if (found == readings_.end()) Begin(id, header, read, send);
                 },
                 [&](const MoreLog& more) {
                   if (found == readings_.end()) return;  // it has ended meanwhile
                   found->second.allowed =
                       std::min(found->second.allowed + more.bytes, kMaxLogWindow);
                   Step(id);
                 },
                 [&](const EndLog&) {
                   if (found != readings_.end()) End(id, "");
                 },
             },
             order.what);
}

void LogReads::Begin(LogReadingId id, const Header& header, const ReadLog& wanted,
                     const Send& send) {
  Reading reading;
  reading.header = header;
  reading.send = send;
  reading.wanted = wanted;
  reading.path =
      absl::StrCat(options_.run, "/", LogFolderOf(wanted), "/", LogNameOf(wanted.stream));
  reading.file = std::make_shared<LogFileReader>(options_.run, wanted, written_);
  reading.allowed = std::min(wanted.window, kMaxLogWindow);
  const bool too_many = readings_.size() >= kMaxLogReadings;
  readings_.emplace(id, std::move(reading));
  if (too_many) return End(id, absl::StrCat("its agent reads ", kMaxLogReadings, " files already"));
  if (on_disk_ >= kMaxOnDisk) return End(id, "the disk with its log files does not answer");
  Step(id);
}

void LogReads::Step(LogReadingId id) {
  Reading& reading = readings_.at(id);
  if (reading.busy || reading.allowed == 0) return;
  reading.busy = true;
  reading.limit = loop_->AddTimer(EventLoop::Clock::now() + options_.disk_limit, [this, id] {
    End(id, absl::StrCat("the disk with its log files has not answered for ",
                         options_.disk_limit.count() / 1000, " s"));
  });
  const std::size_t most = std::min(reading.allowed, kMaxLogPieceBytes);
  const WrittenFiles::State before = written_->Look(reading.path);
  ++on_disk_;
  disk_.Run([file = reading.file, most] { return file->Read(most); },
            [this, id, before](const Chunk& chunk) {
              --on_disk_;
              OnRead(id, before, chunk);
            });
}

void LogReads::OnRead(LogReadingId id, const WrittenFiles::State& before, const Chunk& chunk) {
  const auto found = readings_.find(id);
  if (found == readings_.end()) return;  // it has ended meanwhile
  Reading& reading = found->second;
  reading.busy = false;
  loop_->CancelTimer(reading.limit);
  if (!chunk.ok()) return End(id, std::string(chunk.status().message()));
  if (chunk->text.empty()) return OnEndOfFile(id, before, chunk->missing);
  reading.allowed -= chunk->text.size();
  reading.send(reading.header, {id, chunk->text});
  Step(id);
}

void LogReads::OnEndOfFile(LogReadingId id, const WrittenFiles::State& before, bool missing) {
  const Reading& reading = readings_.at(id);
  const bool may_come = missing && !before.open && generation_ == reading.wanted.generation;
  if (!reading.wanted.follow || (!before.open && !may_come)) {
    return End(id, missing ? absl::StrCat("there is no ", LogFolderOf(reading.wanted), "/",
                                          LogNameOf(reading.wanted.stream), " in its run folder")
                           : "");
  }
  const bool waits = written_->Await(reading.path, before, [this, id] {
    loop_->Post([this, id] {
      if (readings_.contains(id)) Step(id);
    });
  });
  if (!waits) Step(id);
}

void LogReads::End(LogReadingId id, const std::string& note) {
  const auto reading = readings_.extract(id);
  if (reading.empty()) return;
  loop_->CancelTimer(reading.mapped().limit);
  reading.mapped().send(reading.mapped().header, {id, "", true, note});
  LetGo(reading.mapped());
  if (readings_.empty() && finished_) std::exchange(finished_, nullptr)();
}

void LogReads::LetGo(Reading& reading) {
  loop_->CancelTimer(reading.limit);
  disk_.Run([file = std::move(reading.file)] {});
}

void LogReads::OnSessionLost() {
  for (auto& [id, reading] : std::exchange(readings_, {})) LetGo(reading);
  if (finished_) std::exchange(finished_, nullptr)();
}

void LogReads::OnGenerationEnded() {
  generation_.reset();
  written_->WakeAll();
}

void LogReads::Finish(std::chrono::milliseconds limit, std::function<void()> done) {
  if (readings_.empty()) return done();
  finished_ = std::move(done);
  loop_->AddTimer(EventLoop::Clock::now() + limit, [this] {
    if (finished_) std::exchange(finished_, nullptr)();
  });
}

}  // namespace ddprun
