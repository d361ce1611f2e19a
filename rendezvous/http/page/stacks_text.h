// The stacks of a hang, as a line of history has them, as text. Pure.
#ifndef DDPRUN_RENDEZVOUS_HTTP_PAGE_STACKS_TEXT_H_
#define DDPRUN_RENDEZVOUS_HTTP_PAGE_STACKS_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace ddprun::http {

// `stacks`: what ToJson of rendezvous/stacks/stack_text.h makes of ranks. Gives what ToText there
// makes of the same tree; "" for what is no such tree.
std::string StacksText(const nlohmann::ordered_json& stacks);

}  // namespace ddprun::http

#endif  // DDPRUN_RENDEZVOUS_HTTP_PAGE_STACKS_TEXT_H_
