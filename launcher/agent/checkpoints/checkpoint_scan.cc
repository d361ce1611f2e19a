#include "launcher/agent/checkpoints/checkpoint_scan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "launcher/agent/checkpoints/owner_watch.h"
#include "worker/contract/checkpoint_file.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The number of files to read per folder. Older files are needed if the newest is on a dead
// timeline (docs/recovery.md).
constexpr std::size_t kMaxFound = 4;
constexpr std::uint64_t kMaxHeaderBytes = 64 << 20;

// `step-<number>.safetensors`
std::optional<std::int64_t> StepOf(const fs::path& path) {
  const std::string name = path.filename();
  absl::string_view number = name;
  std::int64_t step = 0;
  if (!absl::ConsumePrefix(&number, checkpoint_file::kPrefix) ||
      !absl::ConsumeSuffix(&number, checkpoint_file::kSuffix) || number.empty() ||
      number.find_first_not_of("0123456789") != number.npos || !absl::SimpleAtoi(number, &step)) {
    return std::nullopt;
  }
  return step;
}

// The result of reading a file: the header of a whole safetensors file, or the errno of a failed
// read, or neither: the file is gone or damaged.
struct Look {
  Json header = nullptr;
  int error = 0;
};

// False: `*look` has the reason.
bool ReadAt(int file, std::uint64_t offset, void* to, std::size_t size, Look* look) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = ::pread(file, static_cast<char*>(to) + done, size - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) look->error = errno;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

// True: the tensors end exactly at the end of the file.
bool FillsFile(const Json& header, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const Json* const offsets =
        tensor.is_object() && tensor.contains("data_offsets") ? &tensor["data_offsets"] : nullptr;
    if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 ||
        !(*offsets)[1].is_number_unsigned()) {
      return false;
    }
    end = std::max(end, (*offsets)[1].get<std::uint64_t>());
  }
  return end == data_bytes;
}

Look LookAt(const fs::path& path) {
  Look look;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    if (errno != ENOENT) look.error = errno;
    return look;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  unsigned char prefix[8] = {};
  if (!S_ISREG(status.st_mode) || size < sizeof prefix) return look;
  if (!ReadAt(file.get(), 0, prefix, sizeof prefix, &look)) return look;
  std::uint64_t length = 0;  // little-endian
  for (int i = 7; i >= 0; --i) length = length << 8 | prefix[i];
  if (length > kMaxHeaderBytes || length > size - sizeof prefix) return look;
  std::string text(length, '\0');
  if (!ReadAt(file.get(), sizeof prefix, text.data(), text.size(), &look)) return look;
  Json header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (header.is_object() && FillsFile(header, size - sizeof prefix - length)) {
    look.header = std::move(header);
  }
  return look;
}

// True: the file belongs to another user, so workers of this job did not make it. Never true for
// root, because a file server may give root's files to another user.
bool IsOfAnotherUser(const fs::path& path) {
  struct stat status = {};
  return ::geteuid() != 0 && ::stat(path.c_str(), &status) == 0 && status.st_uid != ::geteuid();
}

std::string CannotRead(const fs::path& path, int error) {
  return absl::StrCat("cannot read ", path.string(), ": ", std::strerror(error), " (errno ", error,
                      ", user id ", ::geteuid(), "); it may hold a state");
}

std::string TextIn(const Json& metadata, const char* name) {
  const auto entry = metadata.find(name);
  return entry != metadata.end() && entry->is_string() ? entry->get<std::string>() : "";
}

// The state in the file, by the file's own metadata. Generation -1: another job made it, or the
// maker is not known.
SavedState NameOf(const Json& header, const std::string& job, std::int64_t step) {
  SavedState state{0, Generation{-1}, step, Tier::kDurable};
  const auto metadata = header.find("__metadata__");
  std::uint32_t requeue_number = 0;
  std::int32_t generation = 0;
  const bool ours = metadata != header.end() && metadata->is_object() &&
                    TextIn(*metadata, checkpoint_file::kJob) == job &&
                    absl::SimpleAtoi(TextIn(*metadata, checkpoint_file::kEpoch), &requeue_number) &&
                    absl::SimpleAtoi(TextIn(*metadata, checkpoint_file::kGeneration), &generation);
  if (!ours || generation < 0 || generation > kMaxClaimedGeneration) return state;
  state.requeue_number = requeue_number;
  state.generation.value = generation;
  return state;
}

// True: the file was copied or renamed, so workers will not load it. Other programs' files may name
// no step.
bool IsOfAnotherStep(const Json& header, std::int64_t step) {
  const auto metadata = header.find("__metadata__");
  if (metadata == header.end() || !metadata->is_object()) return false;
  const std::string told = TextIn(*metadata, checkpoint_file::kStep);
  return !told.empty() && told != std::to_string(step);
}

// True: a file named by a worker exists, or cannot be read. Takes the maker from the file's own
// metadata: a later generation may have rewritten the file, and ended before it could report this.
bool IsThere(const std::string& job, SavedFile* file, std::vector<std::string>* problems) {
  const fs::path path = file->path;
  std::error_code error;
  if (path.extension() != checkpoint_file::kSuffix) {
    const fs::file_status status = fs::status(path, error);
    file->state.unreadable = !fs::status_known(status);
    if (file->state.unreadable) {
      problems->push_back(CannotRead(path, error.value()));
      return true;
    }
    return fs::is_regular_file(status) ? fs::file_size(path, error) > 0 : fs::is_directory(status);
  }
  const Look look = LookAt(path);
  file->state.unreadable = look.error != 0;
  if (look.error != 0) {
    problems->push_back(CannotRead(path, look.error));
    return true;
  }
  if (look.header.is_null()) return false;
  const SavedState by_itself = NameOf(look.header, job, file->state.step);
  if (by_itself.generation.value >= 0) file->state = by_itself;
  return true;
}

fs::path Normal(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return (error ? path : absolute).lexically_normal();
}

}  // namespace

namespace {

using StepPath = std::pair<std::int64_t, fs::path>;

bool WasThereBefore(const ScanRequest& request, const fs::path& path) {
  if (!request.anew || request.requeue_number > 0) return false;
  return !request.before || request.before->count(path.string()) > 0;
}

// True: by its metadata, this run made the file.
bool IsOfRun(const std::string& run, const Json& header) {
  const auto metadata = header.find("__metadata__");
  return metadata != header.end() && metadata->is_object() &&
         TextIn(*metadata, checkpoint_file::kRun) == run;
}

// True: the file was in the folder before this job, as far as is known. If it cannot be read, this
// run may have made it: the scan then counts as incomplete.
bool IsExcluded(const ScanRequest& request, const fs::path& path, ScanResult* result) {
  if (!WasThereBefore(request, path)) return false;
  if (!request.run.empty()) {
    const Look look = LookAt(path);
    if (IsOfRun(request.run, look.header)) return false;
    if (look.error != 0 && !IsOfAnotherUser(path)) {
      result->problems.push_back(CannotRead(path, look.error));
      result->incomplete = true;
    }
  }
  return true;
}

// The highest step first.
std::vector<StepPath> ListFolder(const ScanRequest& request, ScanResult* result) {
  std::vector<StepPath> files;
  std::error_code error;
  if (request.folder.empty()) return files;
  for (fs::directory_iterator entry(request.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto step = StepOf(entry->path());
    if (!step) continue;
    if (IsExcluded(request, entry->path(), result)) {
      result->before.insert(entry->path().string());
    } else {
      files.emplace_back(*step, entry->path());
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    result->problems.push_back(CannotRead(request.folder, error.value()));
    result->incomplete = true;
  }
  std::sort(files.rbegin(), files.rend());
  return files;
}

}  // namespace

ScanResult FindCheckpoints(const ScanRequest& request) {
  ScanResult result;
  std::vector<SavedFile>& found = result.files;
  for (SavedFile file : request.named) {
    if (IsThere(request.job, &file, &result.problems)) found.push_back(std::move(file));
  }
  const auto is_named = [&](const fs::path& path) {
    return std::any_of(found.begin(), found.end(),
                       [&](const SavedFile& file) { return Normal(file.path) == Normal(path); });
  };
  std::size_t taken = 0;
  for (const auto& [step, path] : ListFolder(request, &result)) {
    if (taken == kMaxFound) break;
    if (is_named(path)) continue;
    const Look look = LookAt(path);
    if (look.error != 0) result.problems.push_back(CannotRead(path, look.error));
    if (look.error == 0 && (look.header.is_null() || IsOfAnotherStep(look.header, step))) continue;
    const SavedState state = look.error != 0
                                 ? SavedState{0, Generation{-1}, step, Tier::kDurable, true}
                                 : NameOf(look.header, request.job, step);
    // An unreadable file that this job may have made. Without a requeue, ListFolder() has excluded
    // the files from before this job. After a requeue it has excluded none, so the file's user
    // decides.
    const bool may_be_ours =
        state.unreadable && (request.requeue_number == 0 || !IsOfAnotherUser(path));
    if (request.anew && state.generation.value < 0 && !may_be_ours) continue;
    found.push_back({state, path});
    ++taken;
  }
  std::stable_sort(found.begin(), found.end(), [](const SavedFile& a, const SavedFile& b) {
    return a.state.step > b.state.step;
  });
  if (found.size() > kMaxSavedStates) found.resize(kMaxSavedStates);
  return result;
}

CheckpointScan::CheckpointScan(EventLoop* loop, ScanRequest request, Done done)
    : thread_(loop, "ddprun-scan") {
  const CheckpointOwner life = LifeOf(request.job, request.requeue_number);
  thread_.Run(
      [request = std::move(request), life] {
        if (!request.folder.empty()) ClaimFromEarlierLife(request.folder, life);
        return FindCheckpoints(request);
      },
      std::move(done));
}

}  // namespace ddprun
