// A file that is there whole or not at all, whatever dies in between. Any thread.
#ifndef DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_
#define DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

// Writes `pieces`, one after the other, to directory/name: under a temporary name, fsync, rename,
// fsync of the directory, which is created if it is missing (and synced in its parent). Replaces a
// file of that name. Throws ddp::CheckpointError with path and reason; the temporary is removed
// then, so that a disk that was full has its space back.
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces);

// The same for a file that is made piece by piece: `write` gives each to its argument. What `write`
// throws is passed on, and there is no file then.
using Sink = std::function<void(std::string_view piece)>;
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::function<void(const Sink&)>& write);

// Gives a file that is whole its name.
struct Publication {
  // False: there is a file of that name, and it is as it was. Atomic where the file system has
  // renameat2(RENAME_NOREPLACE) or link(2), as NFS has; where it has neither, the caller sees to it
  // that nobody else makes files there.
  std::function<bool()> if_free;
  std::function<void()> in_place_of_the_old;
};

// The same, and `publish` calls one of its argument's functions with success; or it throws, which
// is passed on, and there is no new file then.
using Publisher = std::function<void(const Publication& publication)>;
void WriteDurably(const std::string& directory, const std::string& name,
                  const std::vector<std::string_view>& pieces, const Publisher& publish);

// Makes a folder with its parents, and syncs the entry of each where its parent may be read: a file
// in a folder that is gone after a power failure is gone as well. Throws CheckpointError.
void MakeDirectory(const std::string& directory);

// What this process calls a file under construction: `<path>.<host>-<PID namespace>-<pid>.tmp`, so
// that two jobs with one folder do not get into each other's way. Two threads of one process that
// write the same file at once do: one of them throws.
std::string TemporaryPath(const std::string& path);

// The temporaries in `directory`, of files whose names begin with `prefix`, that nobody is writing
// any more: their process is gone, as far as can be told from here, or nobody wrote to them for a
// day. Those of running processes, here or elsewhere, are not among them. A folder that
// cannot be read has none.
std::vector<std::string> AbandonedTemporaries(const std::string& directory,
                                              const std::string& prefix);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STORAGE_DURABLE_FILE_H_
