#include "rendezvous/machine/step/job_outbox.h"

namespace ddprun {

void JobOutbox::SendTo(const Node& node, RendezvousMessage message) {
  Reply({*job_, life_->requeue_number, generation_->number, node.agent_id}, std::move(message));
}

void JobOutbox::SendTo(const Node& node, const Shared& message) {
  auto* last = actions_.empty() ? nullptr : std::get_if<job_action::SendToMany>(&actions_.back());
  if (last == nullptr || last->message != message) {
    const Header header{*job_, life_->requeue_number, generation_->number, {}};
    Add(job_action::SendToMany{header, {}, message});
    last = &std::get<job_action::SendToMany>(actions_.back());
  }
  last->to.push_back(node.agent_id);
}

void JobOutbox::Reply(const Header& header, RendezvousMessage message) {
  Add(job_action::Send{header, std::move(message)});
}

void JobOutbox::Emit(JobEvent event) {
  event.requeue_number = life_->requeue_number;
  event.generation = generation_->number;
  Add(job_action::Happened{std::move(event)});
}

void JobOutbox::Log(std::string text) { Add(job_action::Note{std::move(text)}); }

void JobOutbox::WarnAll(const Roster& roster, const std::string& text) {
  Log(text);
  const Shared warning = Share(Warning{text});
  for (const Node& node : roster.nodes()) {
    if (!node.suspect) SendTo(node, warning);
  }
}

}  // namespace ddprun
