// The phases of a restart that ddprun itself names. A program's own phase names are arbitrary
// texts: do not use them as metric labels. Pure.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_PHASES_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_PHASES_H_

#include <string_view>

namespace ddprun {

// `name`, or JobCounters::kOther for a name that only a program uses. A static text.
std::string_view KnownPhase(std::string_view name);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_PHASES_H_
