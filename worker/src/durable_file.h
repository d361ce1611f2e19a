// A file that is there whole or not at all, whatever dies in between. No libtorch.
#ifndef DDPRUN_WORKER_SRC_DURABLE_FILE_H_
#define DDPRUN_WORKER_SRC_DURABLE_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

// What a file under construction is called: its name with this behind it.
inline constexpr char kTemporarySuffix[] = ".tmp";

// Writes `pieces`, one after the other, to directory/name: under a temporary name, fsync, rename,
// fsync of the directory, which is created if it is missing. Replaces a file of that name. Throws
// ddp::CheckpointError with path and reason; nothing is left behind then but perhaps the temporary.
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DURABLE_FILE_H_
