#include "worker/src/storage/checkpoint_folder.h"

#include <ddp/errors.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "worker/contract/checkpoint_file.h"
#include "worker/contract/control.h"
#include "worker/src/agent/control_client.h"
#include "worker/src/base/file_errors.h"
#include "worker/src/storage/checkpoint_name.h"
#include "worker/src/storage/durable_file.h"
#include "worker/src/storage/set_aside.h"

namespace ddp::internal {
namespace {

namespace fs = std::filesystem;
namespace checkpoint_file = ddprun::checkpoint_file;

struct Listing {
  std::vector<StepFile> files;         // highest step first
  std::vector<std::string> set_aside;  // files that earlier searches have set aside as damaged
};

// A missing folder counts as empty. Throws UnavailableError.
Listing ListFolder(const std::string& directory) {
  Listing listing;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (const auto step = StepOf(name)) listing.files.push_back({*step, directory + "/" + name});
    if (IsSetAside(name)) listing.set_aside.push_back(directory + "/" + name);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw UnavailableError("cannot list it: " + error.message(), error.value());
  }
  std::sort(listing.files.begin(), listing.files.end(),
            [](const StepFile& a, const StepFile& b) { return a.step > b.step; });
  std::sort(listing.set_aside.rbegin(), listing.set_aside.rend());
  return listing;
}

// Reports the damage to the agent, which makes an event of it.
void ReportDamage(const StepFile& file, const std::string& reason) {
  ControlClient::Process().Send(ddprun::control::kCheckpointDamaged,
                                std::to_string(file.step) + " " + file.path + ": " + reason);
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// nullopt: the file cannot be read.
std::optional<Metadata> MetadataOf(const std::string& path) {
  try {
    return SafetensorsFile::Open(path).metadata();
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

// Throws unless the file that would be replaced belongs to this run.
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

bool IsOfStep(const Metadata& metadata, std::int64_t step) {
  const auto held = metadata.find(checkpoint_file::kStep);
  return held != metadata.end() && held->second == std::to_string(step);
}

// If a file was copied or renamed to the name of another step, it is undamaged but has the wrong
// step. It is refused, but does not count as damaged.
void CheckStep(const SafetensorsFile& file, std::int64_t step) {
  if (IsOfStep(file.metadata(), step)) return;
  const auto held = file.metadata().find(checkpoint_file::kStep);
  throw FormatError("it holds " +
                    (held == file.metadata().end() ? "no step" : "step " + Quoted(held->second)) +
                    ", not the one that its name says");
}

// Joins pieces that are adjacent in memory, so that thousands of small tensors need one write.
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

std::optional<Unavailable> WhyNotListed(const std::string& directory) {
  try {
    ListFolder(directory);
    return std::nullopt;
  } catch (const UnavailableError& e) {
    return Unavailable{directory, e.what(), e.error()};
  }
}

CheckpointSearch::CheckpointSearch(int rank, std::vector<std::string> folders,
                                   std::int64_t highest_step, FolderErrors folder_errors,
                                   DamagedFiles damaged, std::int64_t lowest_step)
    : rank_(rank),
      folders_(std::move(folders)),
      lowest_step_(lowest_step),
      highest_step_(highest_step),
      folder_errors_(folder_errors),
      damaged_(std::move(damaged)) {}

void CheckpointSearch::Restart() {
  listed_ = false;
  next_ = 0;
  file_.reset();
  files_.clear();
  put_off_.clear();
  unlisted_.clear();
  pending_.reset();
  rejected_.clear();
}

void CheckpointSearch::List() {
  if (std::exchange(listed_, true)) return;
  for (const std::string& folder : folders_) {
    try {
      Listing listing = ListFolder(folder);
      for (StepFile& file : listing.files) {
        const bool wanted = lowest_step_ <= file.step && file.step <= highest_step_;
        if (wanted) files_.push_back(std::move(file));
      }
      if (IsForOneStep()) continue;
      for (const std::string& path : listing.set_aside) {
        rejected_.push_back(path + ": it was found damaged before");
      }
    } catch (const UnavailableError& e) {
      unlisted_.push_back({folder, e.what(), e.error()});
    }
  }
  std::stable_sort(files_.begin(), files_.end(),
                   [](const StepFile& a, const StepFile& b) { return a.step > b.step; });
}

CheckpointSearch::Result CheckpointSearch::IsUnavailable(Unavailable what) {
  unavailable_ = std::move(what);
  return Result::kUnavailable;
}

CheckpointSearch::Result CheckpointSearch::Next() {
  if (pending_) return IsUnavailable(*std::exchange(pending_, std::nullopt));
  List();
  if (!unlisted_.empty() && folder_errors_ == FolderErrors::kCount) {
    return IsUnavailable(unlisted_.front());
  }
  while (next_ < files_.size()) {
    if (Open(files_[next_++])) return Result::kFound;
    if (pending_) return IsUnavailable(*std::exchange(pending_, std::nullopt));
  }
  if (!put_off_.empty() && !IsForOneStep()) {
    return IsUnavailable({put_off_.front().file.path, put_off_.front().reason, EIO});
  }
  return unlisted_.empty() ? Result::kNone : IsUnavailable(unlisted_.front());
}

bool CheckpointSearch::Open(const StepFile& file) {
  try {
    file_ = std::make_unique<SafetensorsFile>(SafetensorsFile::Open(file.path));
    CheckStep(*file_, file.step);
    return true;
  } catch (const UnavailableError& e) {
    if (e.error() != ENOENT) PutOff(e);  // ENOENT: removed after it was listed
  } catch (const DamagedError& e) {
    SetAside(e.what());
  } catch (const FormatError& e) {
    Reject(file, e.what());
  }
  return false;
}

void CheckpointSearch::PutOff(const UnavailableError& e) {
  const StepFile& file = files_[next_ - 1];
  if (e.error() != EIO) {
    pending_ = Unavailable{file.path, e.what(), e.error()};
    return;
  }
  put_off_.push_back({file, e.offset(), e.size(), e.what()});
  if (!warned_of_.insert(file.path).second) return;
  Warn(rank_, "checkpoint " + file.path + ": " + e.what() +
                  ". It is damaged if an older one can be read whole; trying that");
}

bool CheckpointSearch::IsReadableNow(const PutOffFile& file) {
  try {
    InputFile content(file.file.path);
    std::string bytes(file.size, '\0');
    content.Read(file.offset, bytes.data(), bytes.size());
    return true;
  } catch (const UnavailableError& e) {
    if (e.error() != EIO) pending_ = Unavailable{file.file.path, e.what(), e.error()};
    return false;
  } catch (const FormatError&) {
    return true;  // its length has changed: open it again
  }
}

bool CheckpointSearch::Accept() {
  for (const PutOffFile& file : put_off_) {
    // The file that was read is in another folder, so it proves nothing about the disk of the
    // put-off file.
    if (FolderOf(file.file.path) != FolderOf(path())) {
      pending_ = Unavailable{file.file.path, file.reason, EIO};
    } else if (IsReadableNow(file)) {
      Restart();
      return false;
    }
    if (pending_) return false;
  }
  for (const PutOffFile& file : std::exchange(put_off_, {})) {
    ReportDamage(file.file, file.reason);
    Warn(rank_, "checkpoint " + file.file.path + " is damaged: " + file.reason +
                    ", again after an older one was read whole. It is left as it is; going on "
                    "with " +
                    path());
  }
  return true;
}

void CheckpointSearch::Reject(const StepFile& file, const std::string& reason) {
  rejected_.push_back(file.path + ": " + reason);
  if (!warned_of_.insert(file.path).second) return;
  ReportDamage(file, reason);
  Warn(rank_, "skipping checkpoint " + file.path + ": " + reason +
                  ". It is left as it is; looking for an older one");
}

void CheckpointSearch::SetAside(const std::string& reason) {
  const StepFile& file = files_[next_ - 1];
  if (!damaged_.rename) {
    Reject(file, "it is damaged: " + reason);
    return;
  }
  const std::string aside = SetAsidePath(path(), damaged_.run);
  std::error_code error;
  if (NameExists(aside)) error = std::make_error_code(std::errc::file_exists);
  if (!error) fs::rename(path(), aside, error);
  rejected_.push_back(path() + ": it is damaged: " + reason);
  if (error && !warned_of_.insert(path()).second) return;  // the warning was already given
  ReportDamage(file, reason);
  Warn(rank_, "checkpoint " + path() + " is damaged: " + reason + ". " +
                  (error ? "It cannot be renamed to " + aside + " (" + error.message() + ")"
                         : "Renamed it to " + aside) +
                  "; looking for an older one");
}

std::string SaveCheckpoint(const std::string& directory, CheckpointImage image,
                           FolderOwner* owner) {
  image.metadata[checkpoint_file::kStep] = std::to_string(image.step);
  const Lineage lineage = Lineage::Of(image.metadata);
  const std::string header = BuildHeader(&image.tensors, std::move(image.metadata));
  RemoveAbandonedCheckpoints(directory);  // first, because they may occupy the space that is needed
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
  Listing listing;
  try {
    listing = ListFolder(directory);
  } catch (const UnavailableError& e) {
    throw CheckpointError(directory + ": " + e.what());
  }
  int kept = 1;  // the checkpoint that was just saved
  for (const StepFile& file : listing.files) {
    if (file.step >= saved_step) continue;
    const std::optional<Metadata> metadata = MetadataOf(file.path);
    if (!metadata || !IsOfStep(*metadata, file.step) || !lineage.MayRemove(*metadata)) continue;
    const bool milestone = retention.keep_every > 0 && file.step % retention.keep_every == 0;
    if (++kept > retention.keep_last && !milestone) Remove(file.path);
  }
}

void RemoveAbandonedCheckpoints(const std::string& directory) {
  for (const std::string& path : AbandonedTemporaries(directory, checkpoint_file::kPrefix)) {
    Remove(path);
  }
}

}  // namespace ddp::internal
