// How a job ends, or one agent's part of it: from the JobMachine and the Supervisor to --report,
// `status` and events.
#ifndef DDPRUN_RENDEZVOUS_CORE_OUTCOME_H_
#define DDPRUN_RENDEZVOUS_CORE_OUTCOME_H_

#include <optional>
#include <string_view>
#include <utility>

namespace ddprun {

enum class Outcome {
  kSucceeded,
  kFailed,
  kPreempted,    // and worth to be started again: there is a state
  kLeft,         // somebody ended it
  kUnreachable,  // the rendezvous did not answer, or too few nodes came together in time
  kRefused,      // the rendezvous does not want this agent; only an agent comes to it
  // A state of the training is there and cannot be loaded. Not to be started again by a program.
  kStateUnreadable,
};

// table: the words that users see
inline constexpr std::pair<Outcome, const char*> kOutcomes[] = {
    {Outcome::kSucceeded, "succeeded"},
    {Outcome::kFailed, "failed"},
    {Outcome::kPreempted, "preempted"},
    {Outcome::kLeft, "left"},
    {Outcome::kUnreachable, "unreachable"},
    {Outcome::kRefused, "refused"},
    {Outcome::kStateUnreadable, "state_unreadable"},
};

inline const char* ToString(Outcome outcome) {
  for (const auto& [known, word] : kOutcomes) {
    if (known == outcome) return word;
  }
  return "?";
}

inline std::optional<Outcome> ParseOutcome(std::string_view word) {
  for (const auto& [outcome, known] : kOutcomes) {
    if (known == word) return outcome;
  }
  return std::nullopt;
}

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_OUTCOME_H_
