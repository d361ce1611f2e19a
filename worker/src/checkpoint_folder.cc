#include "worker/src/checkpoint_folder.h"

#include <ddp/errors.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "worker/contract/control.h"
#include "worker/src/durable_file.h"

namespace ddp::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr char kCorruptSuffix[] = ".corrupt";

struct StepFile {
  std::int64_t step = 0;
  std::string path;
};

void Warn(const std::string& text) {
  std::cerr << "[rank 0] warning: " + text + "\n" << std::flush;
}

// Nothing for a name that CheckpointName() does not give.
std::optional<std::int64_t> StepOf(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return ddprun::control::ParseNumber(name);
}

// Highest step first. A folder that is not there is an empty one.
std::vector<StepFile> ListSteps(const std::string& directory) {
  std::vector<StepFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (const auto step = StepOf(name)) files.push_back({*step, directory + "/" + name});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw CheckpointError("cannot read the checkpoint folder " + directory + ": " +
                          error.message());
  }
  std::sort(files.begin(), files.end(),
            [](const StepFile& a, const StepFile& b) { return a.step > b.step; });
  return files;
}

// Out of the way, so that it is neither tried again nor taken for a checkpoint; kept, so that a
// person can look at it.
void SetAside(const std::string& path, const std::string& reason) {
  const std::string aside = path + kCorruptSuffix;
  std::error_code error;
  fs::rename(path, aside, error);
  Warn("checkpoint " + path + " is damaged: " + reason + ". " +
       (error ? "It cannot be renamed to " + aside + " (" + error.message() + ")"
              : "Renamed it to " + aside) +
       "; looking for an older one");
}

bool IsReadable(const std::string& path) {
  try {
    SafetensorsFile::Open(path, SafetensorsFile::Check::kStructure);
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

void Remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) Warn("cannot remove the old checkpoint " + path + ": " + error.message());
}

}  // namespace

std::string CheckpointName(std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof(name), "%s%012lld%s", kPrefix.data(), static_cast<long long>(step),
                kSuffix.data());
  return name;
}

std::unique_ptr<SafetensorsFile> OpenNewestCheckpoint(const std::string& directory,
                                                      std::string* path) {
  for (const StepFile& file : ListSteps(directory)) {
    *path = file.path;
    try {
      return std::make_unique<SafetensorsFile>(SafetensorsFile::Open(file.path));
    } catch (const DamagedError& e) {
      SetAside(file.path, e.what());
    } catch (const FormatError& e) {
      Warn("skipping checkpoint " + file.path + ": " + e.what() +
           ". It is left as it is; looking for an older one");
    }
  }
  return nullptr;
}

void RemoveOldCheckpoints(const std::string& directory, std::int64_t saved_step, int keep) {
  int kept = 1;  // the one just saved
  for (const StepFile& file : ListSteps(directory)) {
    if (file.step >= saved_step || !IsReadable(file.path)) continue;
    if (++kept > keep) Remove(file.path);
  }
}

void RemoveAbandonedCheckpoints(const std::string& directory) {
  for (const std::string& path : AbandonedTemporaries(directory, std::string(kPrefix))) {
    Remove(path);
  }
}

}  // namespace ddp::internal
