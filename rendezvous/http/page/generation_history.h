// GenerationHistory: when the generations of a job formed, started and ended, and why. Computed
// from the job's events. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_GENERATION_HISTORY_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_GENERATION_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ddprun::http {

class GenerationHistory {
 public:
  static constexpr std::size_t kKept = 64;

  // Takes the job's events, one JSON line each, in order. `unix_ms`: the event's time.
  void OnLine(const nlohmann::ordered_json& line, std::int64_t unix_ms);

  // Oldest first. A time is null if its event has not come. `redacted`: without reasons and without
  // the phase names of the program.
  nlohmann::ordered_json ToJson(std::int64_t now_unix_ms, bool redacted) const;

  struct Hang {
    std::int64_t generation = 0;
    std::string stacks;  // the stacks of all ranks, as text
  };
  // The newest reported hang; nullopt if it has no stacks. Kept after a restart of the job, because
  // people often look only then.
  const std::optional<Hang>& last_hang() const { return last_hang_; }

 private:
  struct Entry {
    std::int64_t requeue_number = 0;
    std::int64_t generation = 0;
    std::optional<std::int64_t> formed_ms{};
    std::optional<std::int64_t> started_ms{};
    std::optional<std::int64_t> saving_ms{};
    std::optional<std::int64_t> stopping_ms{};
    std::optional<std::int64_t> ended_ms{};
    std::string why{};
    double recovery_ms = 0;  // of the slowest node
    nlohmann::ordered_json phases_ms{};
  };

  Entry& EntryOf(std::int64_t requeue_number, std::int64_t generation);
  void Note(const std::string& event, const nlohmann::ordered_json& line, std::int64_t unix_ms,
            Entry* entry);

  std::deque<Entry> entries_;
  std::optional<Hang> last_hang_;
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_GENERATION_HISTORY_H_
