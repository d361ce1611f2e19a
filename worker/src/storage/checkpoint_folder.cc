#include "worker/src/storage/checkpoint_folder.h"

#include <ddp/errors.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "worker/contract/control.h"
#include "worker/src/storage/durable_file.h"

namespace ddp::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr char kCorruptSuffix[] = ".corrupt";
constexpr char kStepKey[] = "step";

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

// Nothing where it cannot be read.
std::optional<Metadata> MetadataOf(const std::string& path) {
  try {
    return SafetensorsFile::Open(path).metadata();
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

// Throws unless the file, whose name is wanted, is one of this run.
void CheckReplaceable(const std::string& path, const Lineage& lineage) {
  const std::optional<Metadata> metadata = MetadataOf(path);
  const std::string run = metadata ? Lineage::Of(*metadata).run() : "";
  if (!run.empty() && run == lineage.run()) return;
  throw CheckpointError("there is a file " + path + " already, " +
                        (!metadata     ? "which cannot be read"
                         : run.empty() ? "of an older version"
                                       : "of another run, " + Quoted(run)) +
                        "; it is kept");
}

void Remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) Warn(0, "cannot remove the old checkpoint " + path + ": " + error.message());
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// For a damaged file: that of another run may have the first name.
std::string FreeName(const std::string& path) {
  constexpr int kMost = 9;
  std::string aside = path + kCorruptSuffix;
  for (int i = 2; i <= kMost && Exists(aside); ++i) {
    aside = path + "." + std::to_string(i) + kCorruptSuffix;
  }
  return aside;
}

// `aside` was renamed by this process. No other knows which damaged files are of its own run: one
// that ends leaves its two behind.
void KeepNewestSetAside(int rank, const StepFile& aside) {
  using Kept = std::set<std::pair<std::int64_t, std::string>>;  // steps and paths
  static std::mutex mutex;
  static auto& by_folder = *new std::map<fs::path, Kept>;
  const std::lock_guard<std::mutex> lock(mutex);
  Kept& kept = by_folder[fs::path(aside.path).parent_path()];
  kept.emplace(aside.step, aside.path);
  while (kept.size() > CheckpointSearch::kSetAsideKept) {
    const std::string oldest = kept.begin()->second;
    kept.erase(kept.begin());
    std::error_code error;
    fs::remove(oldest, error);
    Warn(rank,
         (error ? "cannot remove " + oldest + " (" + error.message() + ")" : "removed " + oldest) +
             ": of the damaged files the two newest are kept");
  }
}

// A file that was copied or renamed over another one is whole, and yet not what its name says.
void CheckStep(const SafetensorsFile& file, std::int64_t step) {
  const auto held = file.metadata().find(kStepKey);
  if (held != file.metadata().end() && held->second == std::to_string(step)) return;
  throw DamagedError("it holds " +
                     (held == file.metadata().end() ? "no step" : "step " + Quoted(held->second)) +
                     ", not the one that its name says");
}

// Neighbours in memory as one piece: a file of thousands of small tensors is one write.
std::vector<std::string_view> Pieces(const std::string& header,
                                     const std::vector<TensorBytes>& tensors) {
  std::vector<std::string_view> pieces = {header};
  for (const TensorBytes& tensor : tensors) {
    const auto* const data = static_cast<const char*>(tensor.data);
    std::string_view& last = pieces.back();
    if (pieces.size() > 1 && last.data() + last.size() == data) {
      last = {last.data(), last.size() + tensor.size};
    } else {
      pieces.emplace_back(data, tensor.size);
    }
  }
  return pieces;
}

}  // namespace

void Warn(int rank, const std::string& text) {
  std::cerr << "[rank " + std::to_string(rank) + "] warning: " + text + "\n" << std::flush;
}

std::string CheckpointName(std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof(name), "%s%012lld%s", kPrefix.data(), static_cast<long long>(step),
                kSuffix.data());
  return name;
}

CheckpointSearch::CheckpointSearch(int rank, const std::vector<std::string>& folders,
                                   std::int64_t highest_step)
    : rank_(rank) {
  for (const std::string& folder : folders) {
    for (StepFile& file : ListSteps(folder)) {
      if (file.step <= highest_step) files_.push_back(std::move(file));
    }
  }
  std::stable_sort(files_.begin(), files_.end(),
                   [](const StepFile& a, const StepFile& b) { return a.step > b.step; });
}

bool CheckpointSearch::Next() {
  while (next_ < files_.size()) {
    const StepFile& file = files_[next_++];
    try {
      file_ = std::make_unique<SafetensorsFile>(SafetensorsFile::Open(file.path));
      CheckStep(*file_, file.step);
      return true;
    } catch (const DamagedError& e) {
      SetAside(e.what());
    } catch (const FormatError& e) {
      Warn(rank_, "skipping checkpoint " + file.path + ": " + e.what() +
                      ". It is left as it is; looking for an older one");
    }
  }
  return false;
}

void CheckpointSearch::SetAside(const std::string& reason) {
  const std::string aside = FreeName(path());
  std::error_code error;
  if (Exists(aside)) error = std::make_error_code(std::errc::file_exists);
  if (!error) fs::rename(path(), aside, error);
  Warn(rank_, "checkpoint " + path() + " is damaged: " + reason + ". " +
                  (error ? "It cannot be renamed to " + aside + " (" + error.message() + ")"
                         : "Renamed it to " + aside) +
                  "; looking for an older one");
  if (!error) KeepNewestSetAside(rank_, {files_[next_ - 1].step, aside});
}

std::string SaveCheckpoint(const std::string& directory, CheckpointImage image,
                           FolderOwner* owner) {
  image.metadata[kStepKey] = std::to_string(image.step);
  const Lineage lineage = Lineage::Of(image.metadata);
  const std::string header = BuildHeader(&image.tensors, std::move(image.metadata));
  RemoveAbandonedCheckpoints(directory);  // first: they may take the space we need
  const std::string name = CheckpointName(image.step);
  const std::string path = directory + "/" + name;
  WriteDurably(directory, name, Pieces(header, image.tensors), [&](const Publication& publication) {
    owner->Guard([&] {
      if (publication.if_free()) return;
      CheckReplaceable(path, lineage);
      publication.in_place_of_the_old();
    });
  });
  return path;
}

void RemoveOldCheckpoints(const std::string& directory, std::int64_t saved_step,
                          const Retention& retention, const Lineage& lineage) {
  int kept = 1;  // the one just saved
  for (const StepFile& file : ListSteps(directory)) {
    if (file.step >= saved_step) continue;
    const std::optional<Metadata> metadata = MetadataOf(file.path);
    if (!metadata || !lineage.MayRemove(*metadata)) continue;
    const bool milestone = retention.keep_every > 0 && file.step % retention.keep_every == 0;
    if (++kept > retention.keep_last && !milestone) Remove(file.path);
  }
}

void RemoveAbandonedCheckpoints(const std::string& directory) {
  for (const std::string& path : AbandonedTemporaries(directory, std::string(kPrefix))) {
    Remove(path);
  }
}

}  // namespace ddp::internal
