#include "tests/unit/worker/support/disk.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp::test {
namespace {

namespace fs = std::filesystem;
using Kind = DiskCall::Kind;

// The functions of the C library.
template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

struct Fault {
  int error = 0;
  std::size_t from = 0;
  int times = -1;

  // The errno for a call that reaches byte `end`; 0: the call is made.
  int Take(std::size_t end) {
    if (error == 0 || end <= from || times == 0) return 0;
    if (times > 0) --times;
    return error;
  }
};

struct Watch {
  std::string folder;
  std::map<std::string, Fault> read_faults;  // by path
  std::map<std::string, Fault> open_faults;
  std::map<int, std::string> open_files;  // by descriptor
  std::map<Kind, int> errors;
  std::set<Kind> held;
  std::vector<DiskCall> calls;
};

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
std::condition_variable& Released() {
  static auto* const released = new std::condition_variable;
  return *released;
}
Watch* watch = nullptr;  // guarded by Mutex(); the WatchedDisk's

std::optional<std::string> Inside(const char* path) {
  const std::string text = path;
  if (text == watch->folder) return "";
  if (text.rfind(watch->folder + "/", 0) != 0) return std::nullopt;
  return text.substr(watch->folder.size() + 1);
}

// Makes a call, unless it must fail, and records it if it succeeded. `call`: empty if the call is
// on no watched file. `lock`: of Mutex().
template <typename Make>
auto Watched(std::unique_lock<std::mutex>* lock, std::optional<DiskCall> call, const Make& make)
    -> decltype(make()) {
  if (!call) return make();
  Released().wait(*lock, [&] { return watch == nullptr || watch->held.count(call->kind) == 0; });
  if (watch == nullptr) return make();
  if (const int error = watch->errors[call->kind]; error != 0) {
    errno = error;
    return -1;
  }
  const auto result = make();
  if (result >= 0) watch->calls.push_back(*std::move(call));
  return result;
}

}  // namespace

WatchedDisk::WatchedDisk(std::string folder) {
  const std::lock_guard<std::mutex> lock(Mutex());
  watch = new Watch;
  watch->folder = std::move(folder);
}

WatchedDisk::~WatchedDisk() {
  const std::lock_guard<std::mutex> lock(Mutex());
  delete std::exchange(watch, nullptr);
  Released().notify_all();
}

void WatchedDisk::Hold(Kind kind) {
  const std::lock_guard<std::mutex> lock(Mutex());
  watch->held.insert(kind);
}

void WatchedDisk::Release() {
  const std::lock_guard<std::mutex> lock(Mutex());
  watch->held.clear();
  Released().notify_all();
}

void WatchedDisk::Fail(Kind kind, int error) {
  const std::lock_guard<std::mutex> lock(Mutex());
  watch->errors[kind] = error;
}

void WatchedDisk::FailReads(const std::string& path, int error, std::size_t from, int times) const {
  const std::lock_guard<std::mutex> lock(Mutex());
  watch->read_faults[path] = {error, from, times};
}

void WatchedDisk::FailOpening(const std::string& path, int error, int times) const {
  const std::lock_guard<std::mutex> lock(Mutex());
  watch->open_faults[path] = {error, 0, times};
}

std::vector<DiskCall> WatchedDisk::calls() const {
  const std::lock_guard<std::mutex> lock(Mutex());
  return watch->calls;
}

Files ReadFolder(const std::string& folder) {
  Files files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = ReadFile(entry.path());
  }
  return files;
}

void WriteFolder(const std::string& folder, const Files& files) {
  fs::create_directories(folder);
  for (const auto& [name, content] : files) {
    std::ofstream(folder + "/" + name, std::ios::binary) << content;
  }
}

namespace {

struct Content {
  std::string now;
  std::string synced;
};

std::string Survived(const Content& content, Survivors survivors, std::mt19937_64* random) {
  const std::size_t safe = content.synced.size();  // files only grow
  std::string left = content.now;
  switch (survivors) {
    case Survivors::kAll:
      break;
    case Survivors::kNothing:
    case Survivors::kNamesWithoutBytes:
      return content.synced;
    case Survivors::kNamesWithZeros:
      std::fill(left.begin() + static_cast<std::ptrdiff_t>(safe), left.end(), '\0');
      break;
    case Survivors::kNamesCutShort:
      left.resize(safe + (*random)() % (left.size() - safe + 1));
      break;
    case Survivors::kAnyOfThem:
      for (std::size_t at = safe; at < left.size(); at += 512) {
        if ((*random)() % 2 == 0) continue;
        const std::size_t end = std::min(at + 512, left.size());
        std::fill(left.begin() + static_cast<std::ptrdiff_t>(at),
                  left.begin() + static_cast<std::ptrdiff_t>(end), '\0');
      }
      break;
  }
  return left;
}

}  // namespace

Files AfterPowerFailure(const Files& before, const std::vector<DiskCall>& calls, std::size_t count,
                        std::size_t part, Survivors survivors, std::mt19937_64* random) {
  using File = std::shared_ptr<Content>;
  std::map<std::string, File> names;    // as the program sees them
  std::map<std::string, File> on_disk;  // as of the last sync of the folder
  std::vector<std::pair<DiskCall, File>> unsynced;
  const auto apply = [](const DiskCall& call, const File& file, std::map<std::string, File>* to) {
    if (call.kind == Kind::kCreate) (*to)[call.path] = file;
    if (call.kind == Kind::kRename) (*to)[call.to] = file;
    if (call.kind != Kind::kCreate) to->erase(call.path);
  };
  for (const auto& [name, content] : before) {
    names[name] = std::make_shared<Content>(Content{content, content});
  }
  on_disk = names;
  for (std::size_t i = 0; i < count + (part > 0 ? 1 : 0); ++i) {
    const DiskCall& call = calls[i];
    switch (call.kind) {
      case Kind::kWrite:
        names.at(call.path)->now += i < count ? call.bytes : call.bytes.substr(0, part);
        break;
      case Kind::kSyncFile:
        names.at(call.path)->synced = names.at(call.path)->now;
        break;
      case Kind::kSyncFolder:
        on_disk = names;
        unsynced.clear();
        break;
      case Kind::kMakeFolder:
      case Kind::kRenameToFree:
      case Kind::kLink:
        break;
      case Kind::kCreate:
      case Kind::kRename:
      case Kind::kRemove: {
        const File file =
            call.kind == Kind::kCreate ? std::make_shared<Content>() : names.at(call.path);
        apply(call, file, &names);
        unsynced.emplace_back(call, file);
        break;
      }
    }
  }
  for (const auto& [call, file] : unsynced) {
    const bool survives = survivors == Survivors::kAnyOfThem ? (*random)() % 2 == 0
                                                             : survivors != Survivors::kNothing;
    if (survives) apply(call, file, &on_disk);
  }
  Files files;
  for (const auto& [name, file] : on_disk) files[name] = Survived(*file, survivors, random);
  return files;
}

}  // namespace ddp::test

// ---- functions that replace those of the C library ----

using ddp::test::DiskCall;
using Kind = ddp::test::DiskCall::Kind;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  static auto* const real = ddp::test::Real<int(const char*, int, ...)>("open");
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch == nullptr) return real(path, flags, mode);
  const auto name = ddp::test::Inside(path);
  std::optional<DiskCall> call;
  if (name && (flags & O_CREAT) != 0) call = DiskCall{Kind::kCreate, *name};
  if (name) {
    if (const int error = ddp::test::watch->open_faults[*name].Take(1)) {
      errno = error;
      return -1;
    }
  }
  const int fd = ddp::test::Watched(&lock, call, [&] { return real(path, flags, mode); });
  if (fd >= 0 && ddp::test::watch != nullptr) {
    ddp::test::watch->open_files.erase(fd);
    if (name) ddp::test::watch->open_files[fd] = *name;
  }
  return fd;
}

ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  static auto* const real = ddp::test::Real<ssize_t(int, void*, size_t, off_t)>("pread");
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch == nullptr) return real(fd, data, size, offset);
  const auto file = ddp::test::watch->open_files.find(fd);
  if (file != ddp::test::watch->open_files.end()) {
    const std::size_t end = static_cast<std::size_t>(offset) + size;
    if (const int error = ddp::test::watch->read_faults[file->second].Take(end)) {
      errno = error;
      return -1;
    }
  }
  return real(fd, data, size, offset);
}

ssize_t write(int fd, const void* data, size_t size) {
  static auto* const real = ddp::test::Real<ssize_t(int, const void*, size_t)>("write");
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch == nullptr) return real(fd, data, size);
  std::optional<DiskCall> call;
  const auto file = ddp::test::watch->open_files.find(fd);
  if (file != ddp::test::watch->open_files.end()) {
    call = DiskCall{Kind::kWrite, file->second};
    call->bytes.assign(static_cast<const char*>(data), size);
  }
  return ddp::test::Watched(&lock, call, [&] { return real(fd, data, size); });
}

int fsync(int fd) {
  static auto* const real = ddp::test::Real<int(int)>("fsync");
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch == nullptr) return real(fd);
  std::optional<DiskCall> call;
  const auto file = ddp::test::watch->open_files.find(fd);
  if (file != ddp::test::watch->open_files.end()) {
    struct stat status = {};
    const bool folder = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
    call = DiskCall{folder ? Kind::kSyncFolder : Kind::kSyncFile, file->second};
  }
  return ddp::test::Watched(&lock, call, [] { return 0; });
}

int close(int fd) {
  static auto* const real = ddp::test::Real<int(int)>("close");
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch != nullptr) ddp::test::watch->open_files.erase(fd);
  return real(fd);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = ddp::test::Real<int(const char*, const char*)>("rename");
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch == nullptr) return real(from, to);
  std::optional<DiskCall> call;
  const auto name = ddp::test::Inside(from);
  if (name) call = DiskCall{Kind::kRename, *name, ddp::test::Inside(to).value_or("outside")};
  return ddp::test::Watched(&lock, call, [&] { return real(from, to); });
}

// Only for absolute paths, which the code under test uses.
int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned int flags) noexcept {
  static auto* const real =
      ddp::test::Real<int(int, const char*, int, const char*, unsigned int)>("renameat2");
  const auto call_real = [&] { return real(from_folder, from, to_folder, to, flags); };
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch == nullptr) return call_real();
  const auto name = ddp::test::Inside(from);
  if (!name) return call_real();
  if (const int error = ddp::test::watch->errors[Kind::kRenameToFree]; error != 0) {
    errno = error;
    return -1;
  }
  const DiskCall call{Kind::kRename, *name, ddp::test::Inside(to).value_or("outside")};
  return ddp::test::Watched(&lock, call, call_real);
}

int link(const char* from, const char* to) noexcept {
  static auto* const real = ddp::test::Real<int(const char*, const char*)>("link");
  const std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch != nullptr && ddp::test::Inside(from)) {
    if (const int error = ddp::test::watch->errors[Kind::kLink]; error != 0) {
      errno = error;
      return -1;
    }
  }
  return real(from, to);
}

static int RemoveWith(int (*real)(const char*), const char* path) {
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch == nullptr) return real(path);
  const auto name = ddp::test::Inside(path);
  return ddp::test::Watched(
      &lock, name ? std::optional<DiskCall>(DiskCall{Kind::kRemove, *name}) : std::nullopt,
      [&] { return real(path); });
}

int unlink(const char* path) noexcept {
  static auto* const real = ddp::test::Real<int(const char*)>("unlink");
  return RemoveWith(real, path);
}

int remove(const char* path) noexcept {  // called by std::filesystem
  static auto* const real = ddp::test::Real<int(const char*)>("remove");
  return RemoveWith(real, path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = ddp::test::Real<int(const char*, mode_t)>("mkdir");
  std::unique_lock<std::mutex> lock(ddp::test::Mutex());
  if (ddp::test::watch == nullptr) return real(path, mode);
  const auto name = ddp::test::Inside(path);
  return ddp::test::Watched(
      &lock, name ? std::optional<DiskCall>(DiskCall{Kind::kMakeFolder, *name}) : std::nullopt,
      [&] { return real(path, mode); });
}

}  // extern "C"
