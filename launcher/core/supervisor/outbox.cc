#include "launcher/core/supervisor/outbox.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

using Action = SupervisorActions::Action;

bool IsHeartbeat(const Action& action) {
  return std::holds_alternative<SupervisorActions::SendHeartbeat>(action);
}

bool IsMessage(const Action& action) {
  return IsHeartbeat(action) || std::holds_alternative<SupervisorActions::Send>(action);
}

bool IsJoin(const Action& action) {
  const auto* const send = std::get_if<SupervisorActions::Send>(&action);
  return send != nullptr && std::holds_alternative<Join>(send->message);
}

}  // namespace

void SupervisorOutbox::Push(Action action) { held_.push_back({std::move(action)}); }

void SupervisorOutbox::PushFirst(Action action) { held_.push_front({std::move(action)}); }

void SupervisorOutbox::Clear(bool always, bool may_be_exiting) {
  held_.push_back({ClearNode{may_be_exiting}, Awaited::kNodeCleared, always});
}

void SupervisorOutbox::Report(Send send, bool workers_running) {
  if (!workers_running) ScanAhead();
  held_.push_back({OfferPort{workers_running}, Awaited::kPortOffered});
  Push(std::move(send));
}

void SupervisorOutbox::ScanAhead() { Push(ScanStates{}); }

void SupervisorOutbox::ScanAgain() {
  owes_states_ = true;
  again_ = scanning_ && scan_look_ != asked_;
  scan_needed_ = true;
  if (!scanning_) ScanAhead();
}

void SupervisorOutbox::WorkersStart() {
  std::erase_if(held_,
                [](const Held& held) { return std::holds_alternative<ScanStates>(held.action); });
  clear_needed_ = scan_needed_ = true;
  scanning_ = owes_states_ = again_ = false;
}

void SupervisorOutbox::DropMessages() {
  std::erase_if(held_, [](const Held& held) { return IsMessage(held.action); });
  owes_states_ = false;
}

std::optional<Verdict> SupervisorOutbox::OnWorkersLost() {
  std::optional<Verdict> verdict;
  for (const Held& held : held_) {
    if (const auto* const exit = std::get_if<Exit>(&held.action)) verdict = exit->verdict;
  }
  std::erase_if(held_, [](const Held& held) {
    return !std::holds_alternative<GenerationEnded>(held.action);
  });
  awaited_ = Awaited::kNothing;
  owes_states_ = false;
  return verdict;
}

bool SupervisorOutbox::OnNodeCleared() {
  if (awaited_ != Awaited::kNodeCleared) return false;
  awaited_ = Awaited::kNothing;
  clear_needed_ = false;
  return true;
}

std::optional<LookId> SupervisorOutbox::OnStatesFound() {
  if (!scanning_) return std::nullopt;  // workers were started meanwhile
  found_look_ = look();
  scanning_ = false;
  scan_needed_ = std::exchange(again_, false);
  if (scan_needed_) ScanAhead();
  const bool owed = std::exchange(owes_states_, owes_states_ && scan_needed_);
  return owed ? std::optional(found_look_) : std::nullopt;
}

void SupervisorOutbox::MarkPendingStates(Action* action) {
  auto* const send = std::get_if<Send>(action);
  if (send == nullptr) return;
  auto* const join = std::get_if<Join>(&send->message);
  auto* const stopped = std::get_if<Stopped>(&send->message);
  if (join != nullptr) join->look = look();
  if (stopped != nullptr) stopped->look = look();
  if (!scanning_) return;
  if (join != nullptr) join->states_pending = !join->workers_running;
  if (stopped != nullptr) stopped->states_pending = true;
  owes_states_ = owes_states_ || stopped != nullptr || (join != nullptr && join->states_pending);
}

void SupervisorOutbox::OnPortOffered(int port) {
  if (awaited_ != Awaited::kPortOffered) return;
  awaited_ = Awaited::kNothing;
  auto* const send = held_.empty() ? nullptr : std::get_if<Send>(&held_.front().action);
  if (send == nullptr) return;  // the session of the message is over
  if (auto* const join = std::get_if<Join>(&send->message)) join->offered_port = port;
  if (auto* const stopped = std::get_if<Stopped>(&send->message)) stopped->offered_port = port;
}

std::optional<Action> SupervisorOutbox::NextHeartbeat() {
  const auto first = std::find_if(held_.begin(), held_.end(), [](const Held& held) {
    return IsHeartbeat(held.action) || IsJoin(held.action);
  });
  if (first == held_.end() || !IsHeartbeat(first->action)) return std::nullopt;
  Action heartbeat = std::move(first->action);
  held_.erase(first);
  return heartbeat;
}

std::optional<Action> SupervisorOutbox::Next() {
  if (auto heartbeat = NextHeartbeat()) return heartbeat;
  while (awaited_ == Awaited::kNothing && !held_.empty()) {
    Held next = std::move(held_.front());
    held_.pop_front();
    const bool is_clear = std::holds_alternative<ClearNode>(next.action);
    if (is_clear && !clear_needed_ && !next.always) continue;
    if (auto* const scan = std::get_if<ScanStates>(&next.action)) {
      if (!scan_needed_ || std::exchange(scanning_, true)) continue;
      scan_look_ = asked_;
      scan->run_id = run_id_;
    }
    MarkPendingStates(&next.action);
    awaited_ = next.answer;
    return std::move(next.action);
  }
  return std::nullopt;
}

}  // namespace ddprun
