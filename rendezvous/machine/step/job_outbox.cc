#include "rendezvous/machine/step/job_outbox.h"

namespace ddprun {

void JobOutbox::SendTo(const Node& node, RendezvousMessage message) {
  Reply({*job_, life_->requeue_number, generation_->number, node.agent_id}, std::move(message));
}

void JobOutbox::Reply(const Header& header, RendezvousMessage message) {
  actions_.push_back(job_action::Send{header, std::move(message)});
}

void JobOutbox::Emit(JobEvent event) {
  event.requeue_number = life_->requeue_number;
  event.generation = generation_->number;
  actions_.push_back(job_action::Happened{std::move(event)});
}

void JobOutbox::Log(std::string text) { actions_.push_back(job_action::Note{std::move(text)}); }

void JobOutbox::WarnAll(const Roster& roster, const std::string& text) {
  Log(text);
  for (const Node& node : roster.nodes()) {
    if (!node.suspect) SendTo(node, Warning{text});
  }
}

}  // namespace ddprun
