#include "launcher/agent/checkpoint_scan.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "launcher/agent/owner_watch.h"
#include "worker/contract/checkpoint_file.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// So many of a folder are looked into: the newest, and where that is of a dead timeline, older
// ones.
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

// The header of a safetensors file that is as long as it says; null otherwise.
Json HeaderOfWhole(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || size < 8) return nullptr;
  std::ifstream file(path, std::ios::binary);
  unsigned char prefix[8] = {};
  if (!file.read(reinterpret_cast<char*>(prefix), sizeof prefix)) return nullptr;
  std::uint64_t length = 0;  // little-endian
  for (int i = 7; i >= 0; --i) length = length << 8 | prefix[i];
  if (length > kMaxHeaderBytes || length > size - 8) return nullptr;
  std::string text(length, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(length))) return nullptr;
  Json header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return nullptr;
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const Json* const offsets =
        tensor.is_object() && tensor.contains("data_offsets") ? &tensor["data_offsets"] : nullptr;
    if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 ||
        !(*offsets)[1].is_number_unsigned()) {
      return nullptr;
    }
    end = std::max(end, (*offsets)[1].get<std::uint64_t>());
  }
  return size - 8 - length == end ? header : Json(nullptr);
}

std::string TextIn(const Json& metadata, const char* name) {
  const auto entry = metadata.find(name);
  return entry != metadata.end() && entry->is_string() ? entry->get<std::string>() : "";
}

// Who made it, by its own words.
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

// Whether what a worker has named is there, and by whom it was made, should the file say so: a
// later generation may have written it anew, and ended before it could tell.
bool IsThere(const std::string& job, SavedFile* file) {
  const fs::path path = file->path;
  std::error_code error;
  if (path.extension() != checkpoint_file::kSuffix) {
    return fs::is_regular_file(path, error) ? fs::file_size(path, error) > 0
                                            : fs::is_directory(path, error);
  }
  const Json header = HeaderOfWhole(path);
  if (header.is_null()) return false;
  const SavedState by_itself = NameOf(header, job, file->state.step);
  if (by_itself.generation.value >= 0) file->state = by_itself;
  return true;
}

fs::path Normal(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return (error ? path : absolute).lexically_normal();
}

}  // namespace

std::vector<SavedFile> FindCheckpoints(const ScanRequest& request) {
  std::vector<SavedFile> found;
  for (SavedFile file : request.named) {
    if (IsThere(request.job, &file)) found.push_back(std::move(file));
  }
  const auto is_named = [&](const fs::path& path) {
    return std::any_of(found.begin(), found.end(),
                       [&](const SavedFile& file) { return Normal(file.path) == Normal(path); });
  };
  std::vector<std::pair<std::int64_t, fs::path>> files;
  std::error_code error;
  if (!request.folder.empty()) {
    for (fs::directory_iterator entry(request.folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (const auto step = StepOf(entry->path())) files.emplace_back(*step, entry->path());
    }
  }
  std::sort(files.rbegin(), files.rend());
  std::size_t taken = 0;
  for (const auto& [step, path] : files) {
    if (taken == kMaxFound) break;
    if (is_named(path)) continue;
    const Json header = HeaderOfWhole(path);
    if (header.is_null()) continue;
    found.push_back({NameOf(header, request.job, step), path});
    ++taken;
  }
  std::stable_sort(found.begin(), found.end(), [](const SavedFile& a, const SavedFile& b) {
    return a.state.step > b.state.step;
  });
  if (found.size() > kMaxSavedStates) found.resize(kMaxSavedStates);
  return found;
}

CheckpointScan::CheckpointScan(EventLoop* loop, ScanRequest request, Done done)
    : thread_(loop, "ddprun-scan") {
  thread_.Run(
      [request = std::move(request)] {
        if (!request.folder.empty()) {
          ClaimFromEarlierLife(request.folder, request.job, request.requeue_number);
        }
        return FindCheckpoints(request);
      },
      std::move(done));
}

}  // namespace ddprun
