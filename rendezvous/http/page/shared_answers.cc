#include "rendezvous/http/page/shared_answers.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace ddprun::http {

struct SharedAnswers::State {
  struct Entry {
    Answer answer;      // OK unless in_making
    TimePoint until{};  // `answer` is fresh until then
    bool in_making = false;
    std::vector<Done> waiting;
  };

  explicit State(std::function<TimePoint()> the_clock) : clock(std::move(the_clock)) {}

  void OnMade(const ViewKey& key, const Answer& answer) {
    std::vector<Done> waiting;
    {
      const std::lock_guard lock(mutex);
      Entry& entry = entries[key];
      waiting.swap(entry.waiting);
      waiting_count -= waiting.size();
      entry.in_making = false;
      entry.answer = answer;
      entry.until = clock() + kFresh;
      if (!answer.ok()) entries.erase(key);  // the number of unknown names is unbounded
    }
    for (const Done& done : waiting) done(answer);
  }

  void DropOld(TimePoint now) {
    for (auto entry = entries.begin(); entry != entries.end();) {
      const bool is_old = !entry->second.in_making && entry->second.until <= now;
      entry = is_old ? entries.erase(entry) : std::next(entry);
    }
  }

  const std::function<TimePoint()> clock;
  std::mutex mutex;
  // Guarded by mutex.
  std::map<ViewKey, Entry> entries;
  std::size_t waiting_count = 0;
};

SharedAnswers::SharedAnswers(Make make, std::function<TimePoint()> clock)
    : make_(std::move(make)), state_(std::make_shared<State>(std::move(clock))) {}

bool SharedAnswers::Get(const ViewKey& key, Done done) {
  std::shared_ptr<const std::string> fresh;
  {
    const std::lock_guard lock(state_->mutex);
    state_->DropOld(state_->clock());
    const auto found = state_->entries.find(key);
    if (found != state_->entries.end() && !found->second.in_making) {
      fresh = *found->second.answer;
    } else {
      if (state_->waiting_count >= kMostWaiting) return false;
      State::Entry& entry = state_->entries[key];
      entry.waiting.push_back(std::move(done));
      ++state_->waiting_count;
      if (std::exchange(entry.in_making, true)) return true;
    }
  }
  if (fresh != nullptr) {
    done(fresh);
  } else {
    make_(key, [state = state_, key](const Answer& answer) { state->OnMade(key, answer); });
  }
  return true;
}

}  // namespace ddprun::http
