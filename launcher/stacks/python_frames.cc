#include "launcher/stacks/python_frames.h"

namespace ddprun::stacks {
void CopyPythonFrames(const std::vector<Mapping>&, CopiedProcess*) {}
}  // namespace ddprun::stacks
