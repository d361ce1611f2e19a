// Turns copied registers and stacks into functions, files and lines, with elfutils' libdwfl.
//
// For the helper process only: a damaged program or library may make it crash, or use much memory
// or time. Reads the images that the processes have mapped; accesses no process and no network.
#ifndef DDPRUN_LAUNCHER_STACKS_UNWINDER_H_
#define DDPRUN_LAUNCHER_STACKS_UNWINDER_H_

#include <functional>
#include <vector>

#include "launcher/stacks/copied_stacks.h"

namespace ddprun::stacks {

// Calls `unwound` for each copied thread, all main threads first. Opens each image (program or
// library) once for all processes of the same program.
void Unwind(const std::vector<CopiedProcess>& processes,
            const std::function<void(const UnwoundThread&)>& unwound);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_UNWINDER_H_
