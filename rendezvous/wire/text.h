// Makes any text valid for a protobuf string.
#ifndef DDPRUN_RENDEZVOUS_WIRE_TEXT_H_
#define DDPRUN_RENDEZVOUS_WIRE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::wire {

// Returns `text` as UTF-8. Every byte that is not part of a well-formed character becomes U+FFFD. A
// result longer than `max_bytes` is cut between two characters and ends with "…". `max_bytes` ≥ 3.
std::string CleanText(std::string_view text, std::size_t max_bytes);

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_TEXT_H_
