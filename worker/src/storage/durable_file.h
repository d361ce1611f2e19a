// Writes files atomically: after a crash the file is whole, the old one, or missing. Any thread.
#ifndef DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_
#define DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

// Writes `pieces` in order to directory/name: under a temporary name, then fsync, rename, fsync of
// the directory. Creates the directory if it is missing (MakeDirectory). Replaces a file of that
// name. If it fails, throws ddp::CheckpointError with path and reason, and removes the temporary
// file, so that a full disk gets its space back.
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces);

// Like WriteDurably above, for a file that is made piece by piece: `write` passes each piece to its
// argument. If `write` throws, the exception is rethrown, and then no new file exists.
using Sink = std::function<void(std::string_view piece)>;
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::function<void(const Sink&)>& write);

// Two ways to give the finished file its name.
struct Publication {
  // False: a file of that name exists; it does not change. Atomic if the file system has
  // renameat2(RENAME_NOREPLACE), or link(2), like NFS. If it has neither, the caller must ensure
  // that nobody else creates files there.
  std::function<bool()> if_free;
  std::function<void()> in_place_of_the_old;
};

// Like WriteDurably above, with a choice: `publish` must call one function of its argument
// successfully, or throw. Its exception is rethrown, and then no new file exists.
using Publisher = std::function<void(const Publication& publication)>;
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces, const Publisher& publish);

// Makes a folder with its parents. Syncs the entry of each in its parent, if the parent may be
// read. Without that sync a power failure could remove the folder and its files. Throws
// CheckpointError.
void MakeDirectory(const std::string& directory);

// The temporary name of this process: `<path>.<host>-<PID namespace>-<pid>.tmp`, so that two jobs
// that use one folder do not collide. If two threads of a process write the same file at the same
// time, one of them throws.
std::string TemporaryPath(const std::string& path);

// The abandoned temporary files in `directory` whose final names begin with `prefix`. Abandoned
// means: as far as this host knows, the file's process has ended, or nobody has written to the file
// for a day. A file of a running process is included only in the second case. Empty if the folder
// cannot be read.
std::vector<std::string> AbandonedTemporaries(const std::string& directory,
                                              const std::string& prefix);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_
