// What this test program does to the files of one folder: seen, made to fail, and cut off by a
// power failure that never happens.
//
// The program's own open, pread, write, fsync, rename, renameat2, link, unlink, remove and mkdir
// stand in front of the C library's (disk.cc), so that the code under test is the real one.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_DISK_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_DISK_H_

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace ddp::test {

// One call that changed something on disk, or made a change durable. Paths are relative to the
// folder; the folder itself is "".
struct DiskCall {
  enum class Kind {
    kCreate,
    kWrite,
    kSyncFile,
    kSyncFolder,
    kRename,        // one to a free name too
    kRenameToFree,  // never noted, only made to fail
    kLink,          // likewise
    kRemove,
    kMakeFolder
  };
  Kind kind;
  std::string path;
  std::string to = {};     // of kRename
  std::string bytes = {};  // of kWrite
};

// Watches while it lives; one at a time. Any thread may make the calls. Nothing is really synced
// meanwhile, so that a thousand saves take no time.
class WatchedDisk {
 public:
  explicit WatchedDisk(std::string folder);
  ~WatchedDisk();
  WatchedDisk(const WatchedDisk&) = delete;
  WatchedDisk& operator=(const WatchedDisk&) = delete;

  // From now on calls of this kind fail with that error, and change nothing; 0: no longer.
  void Fail(DiskCall::Kind kind, int error);

  // From now on reads that reach byte `from` of this file fail with that error, `times` times; -1:
  // for ever. 0: no longer. `path`: relative to the folder. Files that were open before are not
  // watched.
  void FailReads(const std::string& path, int error, std::size_t from = 0, int times = -1) const;
  // The same of its opening. Files that std::filesystem opens are not watched.
  void FailOpening(const std::string& path, int error, int times = -1) const;

  // From now on calls of this kind wait; until Release(), or this object's end.
  void Hold(DiskCall::Kind kind);
  void Release();

  std::vector<DiskCall> calls() const;
};

using Files = std::map<std::string, std::string>;  // name to content

// The files that are in `folder`, itself without folders.
Files ReadFolder(const std::string& folder);
void WriteFolder(const std::string& folder, const Files& files);

// What a power failure leaves of what was not synced.
enum class Survivors {
  kAll,
  kNothing,            // of contents and of names
  kNamesWithoutBytes,  // files are there and empty
  kNamesWithZeros,     // files are there with their size, full of zeros
  kNamesCutShort,
  kAnyOfThem,  // each name and each 512 bytes by themselves
};

// The files after a power failure, when `before` were on disk and then `count` of `calls` were
// made, and of one more write its first `part` bytes. Only calls on files of one folder.
Files AfterPowerFailure(const Files& before, const std::vector<DiskCall>& calls, std::size_t count,
                        std::size_t part, Survivors survivors, std::mt19937_64* random);

}  // namespace ddp::test

#endif  // DDPRUN_TESTS_UNIT_WORKER_SUPPORT_DISK_H_
