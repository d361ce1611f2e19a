// StackRequests: requests the stacks of all ranks from a job's nodes, and has the answers merged.
//
// One request at a time: for operators, for a verdict on a hang, or for both. Owned by the
// JobMachine.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_HANGS_STACK_REQUESTS_H_
#define DDPRUN_RENDEZVOUS_MACHINE_HANGS_STACK_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/stack_collection.h"
#include "rendezvous/hangs/stack_findings.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/step/job_input.h"
#include "rendezvous/machine/step/job_machine_options.h"
#include "rendezvous/machine/step/job_numbers.h"
#include "rendezvous/machine/step/job_outbox.h"

namespace ddprun {

class StackRequests {
 public:
  // The arguments must outlive this object.
  StackRequests(const JobMachineOptions* options, const JobNumbers* numbers, Roster* roster,
                JobOutbox* out)
      : options_(options), numbers_(numbers), roster_(roster), out_(out) {}
  StackRequests(const StackRequests&) = delete;
  StackRequests& operator=(const StackRequests&) = delete;

  // Begins a request to every node with workers, for a verdict. It replaces a running request, and
  // the operators who wait for that request get the new result.
  void AskForVerdict(TimePoint now);
  // For an operator: joins the running request, or begins one.
  void AskFor(std::uint64_t ticket, TimePoint now);
  // Asks the next nodes, if their turn has come (StackPace).
  void AskMore(TimePoint now);
  // Repeats the request to a node on its new session.
  void AskAgain(const Node& node);
  void OnTaken(const Node& node, const StacksTaken& taken);
  void OnMerged(const job_input::StacksMerged& merged);
  // The node will not answer: it has no workers any more, or is gone.
  void GiveUp(const Node& node);

  bool for_verdict() const { return current_ && current_->for_verdict(); }
  // Every node has answered, or will not answer (GiveUp).
  bool complete() const { return current_ && current_->complete(); }
  // stacks_timeout is over.
  bool late(TimePoint now) const { return current_ && now >= current_->deadline(); }
  // nullopt: nothing is timed.
  std::optional<TimePoint> NextDeadline(TimePoint now) const;

  // Conclude() was called. Only while a request runs.
  bool concluding() const { return current_->concluding(); }
  // Ends the wait for answers and asks `question`. Call it only if complete() or late().
  void Conclude(StackQuestion question);
  // Takes the answer to Conclude(). Ends the request and returns it; nullopt: the answer belongs to
  // another request.
  std::optional<StackCollection> OnJudged(const job_input::StacksJudged& judged);
  // Sends the tree to the operators who asked.
  void Show(const StackCollection& ended, const EncodedStackTree& tree);

  // Drops the request, because the generation is over. Operators get `why`.
  void Drop(const std::string& why);

 private:
  void Begin(TimePoint now);

  const JobMachineOptions* const options_;
  const JobNumbers* const numbers_;
  Roster* const roster_;
  JobOutbox* const out_;
  std::optional<StackCollection> current_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_HANGS_STACK_REQUESTS_H_
