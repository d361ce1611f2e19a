// Converts a hang event's stacks from JSON to text. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_STACKS_TEXT_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_STACKS_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace ddprun::http {

// `stacks`: written by ToJson of rendezvous/stacks/stack_text.h. Returns the text that ToText of
// the same header makes of this tree; "" for other JSON.
std::string StacksText(const nlohmann::ordered_json& stacks);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_STACKS_TEXT_H_
