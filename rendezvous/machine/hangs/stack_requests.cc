#include "rendezvous/machine/hangs/stack_requests.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ddprun {

void StackRequests::AskForVerdict(TimePoint now) {
  Begin(now);
  current_->SetForVerdict();
}

void StackRequests::AskFor(std::uint64_t ticket, TimePoint now) {
  if (!current_) Begin(now);
  current_->AddTicket(ticket);
}

void StackRequests::Begin(TimePoint now) {
  std::vector<std::uint64_t> waiting;
  std::uint64_t last = 0;
  if (current_) {
    waiting = current_->tickets();
    last = current_->request().value;
    out_->Add(job_action::ForgetStacks{current_->request()});
  }
  current_.emplace(StackRequestId{numbers_->Draw(last, now)}, now + options_->stacks_timeout,
                   options_->stacks_pace);
  for (const std::uint64_t ticket : waiting) current_->AddTicket(ticket);
  for (const Node* const node : roster_->members()) {
    if (node == nullptr || node->phase != Phase::kStarted || node->done()) continue;
    const auto first = static_cast<std::uint32_t>(node->first_rank.value);
    const auto count = static_cast<std::uint32_t>(node->spec.worker_count);
    current_->Await(node->agent_id, node->spec.host, {first, first + count - 1});
  }
  AskMore(now);
}

void StackRequests::AskMore(TimePoint now) {
  if (!current_ || current_->concluding()) return;
  for (const AgentId agent_id : current_->TakeToAsk(now)) {
    const Node* const node = roster_->Find(agent_id);
    if (node != nullptr && !node->suspect) AskAgain(*node);  // otherwise when the node is back
  }
}

void StackRequests::AskAgain(const Node& node) {
  if (!current_ || current_->concluding() || !current_->Awaits(node.agent_id)) return;
  out_->SendTo(node, TakeStacks{current_->request()});
}

// Ignores an answer to an earlier request, and a late one.
void StackRequests::OnTaken(const Node& node, const StacksTaken& taken) {
  if (!current_ || current_->request() != taken.request) return;
  if (current_->concluding() || !current_->Awaits(node.agent_id)) return;
  auto [host, ranks] = current_->Answered(node.agent_id);
  out_->Add(
      job_action::MergeStacks{taken.request, std::move(host), ranks, taken.tree, taken.packed});
}

void StackRequests::OnMerged(const job_input::StacksMerged& merged) {
  if (current_ && current_->request() == merged.request) current_->Merged(merged.trees);
}

void StackRequests::GiveUp(const Node& node) {
  if (current_) current_->GiveUp(node.agent_id);
}

std::optional<TimePoint> StackRequests::NextDeadline(TimePoint now) const {
  if (!current_ || current_->concluding()) return std::nullopt;
  return std::max(now, current_->NextDeadline());
}

void StackRequests::Conclude(StackQuestion question) {
  current_->SetConcluding();
  out_->Add(job_action::JudgeStacks{current_->request(),
                                    std::make_shared<const StackQuestion>(std::move(question))});
}

std::optional<StackCollection> StackRequests::OnJudged(const job_input::StacksJudged& judged) {
  if (!current_ || current_->request() != judged.request) return std::nullopt;
  StackCollection ended = *std::exchange(current_, std::nullopt);
  for (const auto& [host, why] : judged.findings->refused) {
    out_->Log(absl::StrCat("the stacks of ", host, " are not used: ", why));
    ended.Refuse(host);
  }
  return ended;
}

void StackRequests::Show(const StackCollection& ended, const EncodedStackTree& tree) {
  if (ended.tickets().empty()) return;
  job_action::ShowStacks shown{0, tree, ended.Missing()};
  for (const std::uint64_t ticket : ended.tickets()) {
    shown.ticket = ticket;
    out_->Add(shown);
  }
}

void StackRequests::Drop(const std::string& why) {
  if (!current_) return;
  const StackCollection dropped = *std::exchange(current_, std::nullopt);
  out_->Add(job_action::ForgetStacks{dropped.request()});
  for (const std::uint64_t ticket : dropped.tickets()) {
    out_->Add(job_action::Answer{ticket, false, absl::StrCat("there are no stacks: ", why)});
  }
}

}  // namespace ddprun
