// Damaged checkpoints are set aside: they are renamed, so that no search tries them again and
// people can look at them:
//
//   step-000000001200.safetensors.<run id>.corrupt   made by this run: the file's header says so
//   step-000000001200.safetensors.corrupt            by another run, or nobody can tell by which
//
// If the name is taken, .2 to .9 are inserted before .corrupt. A run removes only its own set-aside
// files, and keeps the two of the highest steps. On a machine with broken memory every file seems
// damaged, so files of other trainings may be good.
#ifndef DDPRUN_WORKER_SRC_STORAGE_SET_ASIDE_H_
#define DDPRUN_WORKER_SRC_STORAGE_SET_ASIDE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::internal {

// True if a file of this name (without folder) was set aside, by any run and version.
bool IsSetAside(std::string_view name);

// The new path for the damaged file `path`. `run` is the id of this run. A file of the returned
// path exists only if all nine names are taken.
std::string SetAsidePath(const std::string& path, const std::string& run);

// Removes the files of `run` that were set aside in `folder`, except the kSetAsideKept files of the
// highest steps. Prints a warning for each. The caller ensures that nobody else changes the folder.
inline constexpr std::size_t kSetAsideKept = 2;
void RemoveOldSetAside(const std::string& folder, const std::string& run);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_SET_ASIDE_H_
