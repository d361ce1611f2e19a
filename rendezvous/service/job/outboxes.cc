#include "rendezvous/service/job/outboxes.h"

#include <chrono>
#include <utility>
#include <variant>

#include "rendezvous/service/job/output_commit.h"

namespace ddprun {

std::size_t Outboxes::MessagesOf(const JobMachine::Action& action) {
  const auto* const many = std::get_if<JobMachine::SendToMany>(&action);
  return many == nullptr ? 1 : many->to.size();
}

void Outboxes::Deliver(const JobPtr& job, JobMachine::Action& action, bool many) {
  if (IsHeartbeatAck(action)) {
    if (MaySpeak()) Perform(*job, action);
    return;
  }
  if (!many && job->outbox.empty() && MaySpeak()) return Perform(*job, action);
  if (job->outbox.empty()) waiting_.push_back(job);
  job->outbox.push_back(std::move(action));
}

void Outboxes::WorkOff(Duration portion) {
  using Clock = std::chrono::steady_clock;
  if (!ready()) return;
  const JobPtr job = std::move(waiting_.front());
  waiting_.pop_front();
  const std::size_t messages = job->outbox.size() - 1 + MessagesOf(job->outbox.front());
  const CompletionBarrier::Burst burst(completions_, messages - job->outbox_sent);
  const TimePoint until = Clock::now() + portion;
  while (!job->outbox.empty()) {
    PerformNext(*job);
    if (Clock::now() >= until || !MaySpeak()) break;
  }
  if (!job->outbox.empty()) waiting_.push_back(job);
}

void Outboxes::Clear() {
  for (const JobPtr& job : std::exchange(waiting_, {})) {
    job->outbox.clear();
    job->outbox_sent = 0;
  }
}

void Outboxes::Perform(ServedJob& job, JobMachine::Action& action) {
  const auto* const many = std::get_if<JobMachine::SendToMany>(&action);
  if (many == nullptr) return actor_->Perform(job, action);
  for (const AgentId to : many->to) actor_->Send(job, many->HeaderOf(to), *many->message);
}

void Outboxes::PerformNext(ServedJob& job) {
  if (const auto* const many = std::get_if<JobMachine::SendToMany>(&job.outbox.front())) {
    if (job.outbox_sent < many->to.size()) {
      actor_->Send(job, many->HeaderOf(many->to[job.outbox_sent]), *many->message);
    }
    if (++job.outbox_sent < many->to.size()) return;
    job.outbox_sent = 0;
    job.outbox.pop_front();
    return;
  }
  JobMachine::Action action = std::move(job.outbox.front());
  job.outbox.pop_front();
  actor_->Perform(job, action);
}

}  // namespace ddprun
