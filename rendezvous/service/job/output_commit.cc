#include "rendezvous/service/job/output_commit.h"

#include <chrono>
#include <variant>

#include "rendezvous/core/messages.h"
#include "rendezvous/wire/record.h"

namespace ddprun {

bool IsHeartbeatAck(const JobMachine::Action& action) {
  const auto* const send = std::get_if<JobMachine::Send>(&action);
  return send != nullptr && std::holds_alternative<HeartbeatAck>(send->message);
}

std::optional<OutputCommit::Batch> OutputCommit::Persist(const ServedJob& job,
                                                         const JobRecord& record) {
  if (store_ == nullptr) return std::nullopt;  // saves encoding the record: slow for 16,384 nodes
  return Commit({{wire::JobKey(job.name), wire::EncodeRecord(job.owner, record)}});
}

void OutputCommit::Erase(const std::string& job) {
  if (store_ != nullptr) Commit({{wire::JobKey(job), std::nullopt}});
}

OutputCommit::Batch OutputCommit::Commit(Store::Batch batch) {
  const Batch number = ++committed_;
  committed_at_.push_back(std::chrono::steady_clock::now());
  // A store may call back from within Commit; on_outcome_ only enqueues, so that is safe.
  store_->Commit(std::move(batch),
                 [this, number](Store::Outcome outcome) { on_outcome_(number, outcome); });
  return number;
}

void OutputCommit::SetDurable(Batch batch) {
  const auto now = std::chrono::steady_clock::now();
  for (; durable_ < batch && !committed_at_.empty(); ++durable_) {
    times_.Add(now - committed_at_.front());
    committed_at_.pop_front();
  }
  durable_ = batch;
}

bool OutputCommit::Hold(const JobPtr& job, std::optional<Batch> batch, JobMachine::Action& action) {
  if (batch && *batch <= durable_) batch.reset();
  if (!batch && job->held.empty()) return false;
  if (IsHeartbeatAck(action)) return false;
  const Batch until = batch ? *batch : job->held.back().first;
  job->held.emplace_back(until, std::move(action));
  if (waiting_.empty() || waiting_.back() != std::pair(until, job)) {
    waiting_.emplace_back(until, job);
  }
  return true;
}

JobPtr OutputCommit::NextReleased() {
  if (waiting_.empty() || waiting_.front().first > durable_) return nullptr;
  JobPtr job = std::move(waiting_.front().second);
  waiting_.pop_front();
  return job;
}

std::optional<JobMachine::Action> OutputCommit::TakeReleased(ServedJob& job) const {
  if (job.held.empty() || job.held.front().first > durable_) return std::nullopt;
  std::optional<JobMachine::Action> action = std::move(job.held.front().second);
  job.held.pop_front();
  return action;
}

}  // namespace ddprun
