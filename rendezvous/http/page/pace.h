// Pace: tells whether the reader of a stream is fast enough. Without it, a reader who takes a few
// bytes now and then would hold a place for ever. A value; time comes in as an argument.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_PACE_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_PACE_H_

#include <chrono>
#include <cstddef>

#include "rendezvous/core/types.h"

namespace ddprun::http {

class Pace {
 public:
  // Within kSpan a reader must take kBytes, or all that was written.
  static constexpr std::chrono::seconds kSpan{60};
  static constexpr std::size_t kBytes = 64 << 10;

  void Wrote(std::size_t bytes) { written_ += bytes; }
  // `unsent`: the written bytes that the reader has not taken.
  bool IsTooSlow(std::size_t unsent, TimePoint now) {
    const std::size_t sent = written_ > unsent ? written_ - unsent : 0;
    if (unsent == 0 || sent >= sent_then_ + kBytes || then_ == TimePoint()) {
      then_ = now;
      sent_then_ = sent;
    }
    return now - then_ > kSpan;
  }

 private:
  std::size_t written_ = 0;
  std::size_t sent_then_ = 0;
  TimePoint then_{};
};

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_PACE_H_
