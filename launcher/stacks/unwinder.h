// From copied registers and stacks to functions, files and lines, with elfutils' libdwfl.
//
// For the helper process only: a damaged program or library may make it use much memory or time, or
// crash. Reads the images that the processes have mapped; touches no process and no network.
#ifndef DDPRUN_LAUNCHER_STACKS_UNWINDER_H_
#define DDPRUN_LAUNCHER_STACKS_UNWINDER_H_

#include <functional>
#include <vector>

#include "launcher/stacks/copied_stacks.h"

namespace ddprun::stacks {

// Calls `unwound` for each thread that was copied, all main threads first. Each image (program or
// library) is opened once for all processes that have it, wherever they have it.
void Unwind(const std::vector<CopiedProcess>& processes,
            const std::function<void(const UnwoundThread&)>& unwound);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_UNWINDER_H_
