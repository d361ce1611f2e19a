// The phases of a restart that ddprun itself names. A program may name any number of its own, in
// words of its own: these are no labels, and no text for strangers. Pure.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_PHASES_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_PHASES_H_

#include <string_view>

namespace ddprun {

// `name`, or JobCounters::kOther where only the program names such a phase. A static text.
std::string_view KnownPhase(std::string_view name);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_PHASES_H_
