// The Python frames of a process that is held, read from its memory. Reads only.
#ifndef DDPRUN_LAUNCHER_STACKS_PYTHON_FRAMES_H_
#define DDPRUN_LAUNCHER_STACKS_PYTHON_FRAMES_H_

#include <vector>

#include "launcher/stacks/copied_stacks.h"
#include "launcher/stacks/memory_map.h"

namespace ddprun::stacks {

// Where `process` is a Python program: CopiedThread::python_frames of its threads, or in
// CopiedProcess::python why there are none. Call it while the process is held, from the thread that
// holds it.
void CopyPythonFrames(const std::vector<Mapping>& maps, CopiedProcess* process);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_PYTHON_FRAMES_H_
