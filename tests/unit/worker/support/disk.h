// Watches the file operations of this test program in one folder, makes them fail, and simulates a
// power failure at any point.
//
// The functions open, close, pread, write, fsync, rename, renameat2, link, unlink, remove and mkdir
// of disk.cc replace those of the C library, so that the tests need no change of the tested code.
#ifndef DDPRUN_TESTS_UNIT_WORKER_SUPPORT_DISK_H_
#define DDPRUN_TESTS_UNIT_WORKER_SUPPORT_DISK_H_

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace ddp::test {

// One call that changed the disk, or made a change durable. Paths are relative to the folder; "" is
// the folder itself.
struct DiskCall {
  enum class Kind {
    kCreate,
    kWrite,
    kSyncFile,
    kSyncFolder,
    kRename,        // also to a free name
    kRenameToFree,  // only for Fail(): a rename to a free name. Recorded as kRename
    kLink,          // only for Fail(); not recorded
    kRemove,
    kMakeFolder
  };
  Kind kind;
  std::string path;
  std::string to = {};     // of kRename
  std::string bytes = {};  // of kWrite
};

// Watches as long as it lives; only one object may live at a time. Any thread may make the calls.
// Meanwhile fsync does nothing, so that a thousand saves take no time.
class WatchedDisk {
 public:
  explicit WatchedDisk(std::string folder);
  ~WatchedDisk();
  WatchedDisk(const WatchedDisk&) = delete;
  WatchedDisk& operator=(const WatchedDisk&) = delete;

  // From now on calls of this kind fail with this errno, and change nothing; 0: no longer.
  void Fail(DiskCall::Kind kind, int error);

  // From now on reads of this file that reach byte `from` fail with this errno, `times` times;
  // -1: always. Error 0: no longer. `path`: relative to the folder. Descriptors that were opened
  // before the WatchedDisk began are not watched.
  void FailReads(const std::string& path, int error, std::size_t from = 0, int times = -1) const;
  // From now on opening the file fails. Files opened by std::filesystem are not watched.
  void FailOpening(const std::string& path, int error, int times = -1) const;

  // From now on calls of this kind wait until Release(), or until this object ends.
  void Hold(DiskCall::Kind kind);
  void Release();

  std::vector<DiskCall> calls() const;
};

using Files = std::map<std::string, std::string>;  // name to content

// The files in `folder`, which has no subfolders.
Files ReadFolder(const std::string& folder);
void WriteFolder(const std::string& folder, const Files& files);

// What a power failure leaves of unsynced changes.
enum class Survivors {
  kAll,
  kNothing,            // neither contents nor names
  kNamesWithoutBytes,  // files exist and are empty
  kNamesWithZeros,     // files exist with their size, full of zeros
  kNamesCutShort,      // files exist, each cut at any size
  kAnyOfThem,          // each name and each 512 bytes independently
};

// The files after a power failure. `before`: the files on disk at the start. Then `count` of
// `calls` were made, and the first `part` bytes of one more write. Only for calls on files of one
// folder.
Files AfterPowerFailure(const Files& before, const std::vector<DiskCall>& calls, std::size_t count,
                        std::size_t part, Survivors survivors, std::mt19937_64* random);

}  // namespace ddp::test

#endif  // DDPRUN_TESTS_UNIT_WORKER_SUPPORT_DISK_H_
