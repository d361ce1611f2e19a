// How a job ends, or one agent's part in it: set by JobMachine and Supervisor; shown by --report,
// `status` and events.
#ifndef DDPRUN_RENDEZVOUS_CORE_OUTCOME_H_
#define DDPRUN_RENDEZVOUS_CORE_OUTCOME_H_

#include <optional>
#include <string_view>
#include <utility>

namespace ddprun {

// scripts/reference_tables.py makes a table of docs/reference.md from the comments.
enum class Outcome {
  kSucceeded,        // every worker exited with 0
  kFailed,           // the job failed, and is not restarted
  kPreempted,        // stopped; a later start can continue from a state
  kLeft,             // stopped without a saved state, or this agent left the job
  kUnreachable,      // no answer from the rendezvous, or too few nodes in time
  kRefused,          // this agent may not be in the job; never the outcome of a job
  kStateUnreadable,  // a state exists and cannot be loaded; a script must not restart the job
};

// The words that users see.
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
