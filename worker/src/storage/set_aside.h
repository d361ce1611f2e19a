// Damaged checkpoints that have been renamed, so that nobody tries them again or takes them for
// checkpoints, and a person can look at them:
//
//   step-000000001200.safetensors.<run id>.corrupt   made by this run: the file's header says so
//   step-000000001200.safetensors.corrupt            by another run, or nobody can tell by which
//
// with .2 to .9 before .corrupt where the name is taken. A run removes none but its own, the oldest
// of them. Whoever has broken memory finds every file damaged: those of other trainings may be
// whole.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SET_ASIDE_H_
#define DDPRUN_WORKER_SRC_STORAGE_SET_ASIDE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::internal {

// Whether a file of this name, without its folder, has been set aside, by any run and version.
bool IsSetAside(std::string_view name);

// The path that the damaged file `path` is to get. `run`: the id of this run. There is a file of
// that path only where all ten names are taken.
std::string SetAsidePath(const std::string& path, const std::string& run);

// Removes those of `run` in `folder`, but for the kSetAsideKept of the highest steps. Warns. The
// caller sees to it that nobody else changes the folder.
inline constexpr std::size_t kSetAsideKept = 2;
void RemoveOldSetAside(const std::string& folder, const std::string& run);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SET_ASIDE_H_
