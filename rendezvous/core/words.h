// Amounts in words, for messages to people.
#ifndef DDPRUN_RENDEZVOUS_CORE_WORDS_H_
#define DDPRUN_RENDEZVOUS_CORE_WORDS_H_

#include <chrono>
#include <cstdint>
#include <ratio>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// "3 s", "0.25 s".
inline std::string Seconds(Duration duration) {
  return absl::StrCat(std::chrono::duration<double>(duration).count(), " s");
}

// The same to a tenth of a second: "12.1 s".
inline std::string TenthsOfSeconds(Duration duration) {
  using Tenths = std::chrono::duration<std::int64_t, std::deci>;
  return Seconds(std::chrono::round<Tenths>(duration));
}

// "1 node", "2 nodes".
inline std::string Nodes(int count) { return absl::StrCat(count, count == 1 ? " node" : " nodes"); }

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_WORDS_H_
