#include "rendezvous/machine/nodes/held_back_nodes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/core/words.h"

namespace ddprun {

void HeldBackNodes::OnJoined(Node& node, TimePoint now) {
  const auto wait = life_->late_admission.WaitOf(node.spec);
  if (!wait) return;
  const TimePoint until = now + wait->delay;
  HeldBack held_back = node.held_back;
  held_back.until = until;
  held_back.why = wait->reason;
  roster_->SetHeldBack(node, std::move(held_back));
  life_->next_admission = std::min(life_->next_admission.value_or(until), until);
}

void HeldBackNodes::AwaitStandbys(Node& node, TimePoint now) {
  if (node.held_back.any()) return;
  HeldBack held_back = node.held_back;
  held_back.until = now + kStandbysLimit;
  held_back.loads = true;
  held_back.why = "its standbys load the program";
  life_->next_admission =
      std::min(life_->next_admission.value_or(*held_back.until), *held_back.until);
  roster_->SetHeldBack(node, std::move(held_back));
}

bool HeldBackNodes::EndLoading(Node& node) {
  if (!node.held_back.loads) return false;
  HeldBack held_back = node.held_back;
  held_back.until.reset();
  held_back.loads = false;
  roster_->SetHeldBack(node, std::move(held_back));
  return true;
}

void HeldBackNodes::TakeStuck(Node& node, const StuckProcesses& stuck, TimePoint now) {
  if (stuck.report == 0 || stuck.report < node.held_back.stuck.report) return;
  const bool was_stuck = node.held_back.is_stuck();
  HeldBack held_back = node.held_back;
  held_back.stuck = stuck;
  held_back.stuck_told_at = now;
  roster_->SetHeldBack(node, std::move(held_back));
  if (was_stuck == node.held_back.is_stuck()) return;
  const std::string& host = node.spec.host;
  if (!was_stuck) {
    const std::string why = Describe(stuck);
    out_->Emit(
        {.kind = JobEvent::Kind::kStuck, .host = host, .agent_id = node.agent_id, .reason = why});
    const std::string text =
        absl::StrCat(host, " is left out of the job until its processes are gone: ", why);
    out_->Log(text);
    out_->SendTo(node, Waiting{text});
    // The group may form without this node. It may be the only one that has seen the newest
    // checkpoint in a shared folder, so the others must look again.
    survey_->LoseSight(now);
    return;
  }
  out_->Emit({.kind = JobEvent::Kind::kAdmitted, .host = host, .agent_id = node.agent_id});
  out_->Log(absl::StrCat(host, " is admitted again: its processes are gone"));
  survey_->LoseSight(now);  // its stuck processes may have written until now
}

void HeldBackNodes::Admit(TimePoint now) {
  std::optional<TimePoint>& next = life_->next_admission;
  if (!next || now < *next) return;
  next.reset();
  for (Node& node : roster_->nodes()) {
    if (!node.held_back.until) continue;
    const TimePoint until = *node.held_back.until;
    if (now >= until) {
      HeldBack held_back = node.held_back;
      held_back.until.reset();
      const bool loads = std::exchange(held_back.loads, false);
      roster_->SetHeldBack(node, std::move(held_back));
      if (node.held_back.any()) continue;
      out_->Log(loads
                    ? absl::StrCat(
                          node.spec.host,
                          " is taken in, although its standbys have not loaded the program within ",
                          Seconds(kStandbysLimit))
                    : absl::StrCat(node.spec.host, " is admitted again"));
    } else {
      next = std::min(next.value_or(until), until);
    }
  }
}

}  // namespace ddprun
