// Text that is fit for a protobuf string.
#ifndef DDPRUN_RENDEZVOUS_WIRE_TEXT_H_
#define DDPRUN_RENDEZVOUS_WIRE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::wire {

// `text` as UTF-8: every byte that is not part of a well-formed character becomes U+FFFD, and what
// goes past `max_bytes` is cut between two characters, with "…" in its place. `max_bytes` ≥ 3.
std::string CleanText(std::string_view text, std::size_t max_bytes);

// The end of `lines` that fits into `max_lines` and `max_bytes`: older lines go first. If the
// newest line alone is longer than `max_bytes`, its own end is kept. Bytes stay as they are.
std::vector<std::string> NewestLines(const std::vector<std::string>& lines, std::size_t max_lines,
                                     std::size_t max_bytes);

}  // namespace ddprun::wire

#endif  // DDPRUN_RENDEZVOUS_WIRE_TEXT_H_
