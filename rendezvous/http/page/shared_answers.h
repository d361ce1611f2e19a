// SharedAnswers: shares an expensive answer among all requests with the same key. Without errors,
// it makes the answer at most once a second.
//
// Bounded: an answer is kept for a second, and at most kMostWaiting requests wait for answers.
// Thread-safe. Answers in progress may outlive this object.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_SHARED_ANSWERS_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_SHARED_ANSWERS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rendezvous/core/types.h"
#include "rendezvous/http/page/view.h"

namespace ddprun::http {

class SharedAnswers {
 public:
  static constexpr std::chrono::seconds kFresh{1};
  static constexpr std::size_t kMostWaiting = 256;

  // The text, never null. Or an error, which is not kept.
  using Answer = absl::StatusOr<std::shared_ptr<const std::string>>;
  using Done = std::function<void(const Answer&)>;
  // Makes the answer for `key`, and calls `done` once, from any thread.
  using Make = std::function<void(const ViewKey& key, Done done)>;

  SharedAnswers(Make make, std::function<TimePoint()> clock);

  // `done` is called from Get, or on the thread that makes the answer. False: too many requests
  // wait, and `done` is never called.
  bool Get(const ViewKey& key, Done done);

 private:
  struct State;

  const Make make_;
  const std::shared_ptr<State> state_;  // shared with answers in progress
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_SHARED_ANSWERS_H_
