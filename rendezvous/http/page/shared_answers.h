// SharedAnswers: an answer that costs the jobs something is made once for all who ask for the same
// within a second, however often they ask and on however many connections.
//
// Bounded: an answer is kept for a second, and so many requests wait at most for one that is being
// made. Thread-safe; answers that are still being made may outlive it.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_SHARED_ANSWERS_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_SHARED_ANSWERS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/core/types.h"
#include "rendezvous/http/page/view.h"

namespace ddprun::http {

class SharedAnswers {
 public:
  static constexpr std::chrono::seconds kFresh{1};
  static constexpr std::size_t kMostWaiting = 256;

  using Answer = std::shared_ptr<const std::string>;  // null: there is no such thing
  using Done = std::function<void(const Answer&)>;
  // Makes the answer for `key`, and calls `done` once, from any thread.
  using Make = std::function<void(const ViewKey& key, Done done)>;

  SharedAnswers(Make make, std::function<TimePoint()> clock);

  // `done` is called from here, or by whoever makes the answer. False: too many requests wait, and
  // `done` is never called.
  bool Get(const ViewKey& key, Done done);

 private:
  struct State;

  const Make make_;
  const std::shared_ptr<State> state_;  // shared with what is being made
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_SHARED_ANSWERS_H_
