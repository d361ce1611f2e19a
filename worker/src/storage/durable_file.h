// Writes files atomically: after any crash a file is whole or absent. Any thread.
#ifndef DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_
#define DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

// Writes `pieces` in order to directory/name: under a temporary name, fsync, rename, fsync of the
// directory. Creates a missing directory and syncs its entry in the parent. Replaces a file of that
// name. Throws ddp::CheckpointError with path and reason, and removes the temporary file, so that a
// full disk gets its space back.
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces);

// WriteDurably for a file that is produced piece by piece: `write` passes each piece to its
// argument. An exception of `write` is rethrown, and no file exists then.
using Sink = std::function<void(std::string_view piece)>;
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::function<void(const Sink&)>& write);

// Ways to give the finished file its name.
struct Publication {
  // False: a file of that name exists and is unchanged. Atomic if the file system has
  // renameat2(RENAME_NOREPLACE), or link(2), like NFS. With neither, the caller must ensure that
  // nobody else creates files there.
  std::function<bool()> if_free;
  std::function<void()> in_place_of_the_old;
};

// WriteDurably with a choice: `publish` must call one function of its argument successfully, or
// throw. Its exception is rethrown, and no new file exists then.
using Publisher = std::function<void(const Publication& publication)>;
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces, const Publisher& publish);

// Makes a folder with its parents, and syncs the entry of each if its parent may be read: without
// that, a power failure can remove the folder and its files. Throws CheckpointError.
void MakeDirectory(const std::string& directory);

// The temporary name of this process: `<path>.<host>-<PID namespace>-<pid>.tmp`, so that two jobs
// with one folder do not collide. If two threads of one process write one file at once, one throws.
std::string TemporaryPath(const std::string& path);

// The abandoned temporary files in `directory` of files whose names begin with `prefix`: their
// process has ended, as far as this host knows, or they were not written to for a day. Files of
// running processes, here or elsewhere, are not included. Empty if the folder cannot be read.
std::vector<std::string> AbandonedTemporaries(const std::string& directory,
                                              const std::string& prefix);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_
