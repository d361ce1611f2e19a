#include "rendezvous/store/journal_writer.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/store/journal_format.h"
#include "rendezvous/store/journal_reader.h"

namespace ddprun {
namespace {

constexpr std::uint64_t kSnapshotRecordBytes = 1 << 20;
// After this many failed writes to the same file, a new file is tried.
constexpr int kTriesInTheSameFile = 2;

}  // namespace

JournalWriter::JournalWriter(FileSystem* files, Options options)
    : files_(files),
      options_(std::move(options)),
      path_(absl::StrCat(options_.directory, "/journal")),
      temporary_path_(absl::StrCat(path_, ".tmp")),
      compact_above_(options_.compact_above_bytes) {}

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Open(FileSystem* files,
                                                                   Options options) {
  std::unique_ptr<JournalWriter> writer(new JournalWriter(files, std::move(options)));
  if (absl::Status status = writer->Begin(); !status.ok()) return status;
  return writer;
}

absl::Status JournalWriter::Begin() {
  if (absl::Status made = files_->MakeDirectory(options_.directory); !made.ok()) return made;
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = files_->Lock(options_.directory);
  if (!lock.ok()) return lock.status();
  lock_ = *std::move(lock);
  if (absl::Status gone = files_->Remove(temporary_path_); !gone.ok()) return gone;

  const absl::StatusOr<std::string> bytes = files_->Read(path_);
  if (absl::IsNotFound(bytes.status())) {
    if (absl::Status status = BeginNewFile(); !status.ok()) return status;
    return SyncName();
  }
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<journal::Contents> contents = journal::Read(*bytes, path_);
  if (!contents.ok()) return contents.status();
  absl::StatusOr<std::unique_ptr<JournalFile>> file = files_->Open(path_);
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  if (contents->torn_bytes > 0) {
    if (absl::Status cut = file_->Truncate(contents->valid_bytes); !cut.ok()) return cut;
  }
  // A killed process may leave records that were never synced. They must be durable before anybody
  // acts on them.
  if (absl::Status synced = file_->Sync(); !synced.ok()) return synced;
  if (absl::Status synced = SyncName(); !synced.ok()) return synced;

  entries_ = std::move(contents->entries);
  for (const auto& [key, value] : entries_) {
    entries_bytes_ += journal::EncodedBytes(key, value.size());
  }
  next_sequence_ = contents->next_sequence;
  file_id_ = contents->file_id;
  size_ = synced_bytes_ = contents->valid_bytes;
  torn_bytes_ = contents->torn_bytes;
  if (contents->batches > 0) Mark();
  return absl::OkStatus();
}

void JournalWriter::Add(const Store::Batch& batch) {
  journal::AppendBatch(file_id_, next_sequence_++, synced_bytes_, batch, &pending_);
  for (const Store::Write& write : batch) {
    const auto found = entries_.find(write.key);
    if (found != entries_.end()) {
      entries_bytes_ -= journal::EncodedBytes(write.key, found->second.size());
    }
    if (write.value) {
      entries_bytes_ += journal::EncodedBytes(write.key, write.value->size());
      if (found != entries_.end()) {
        found->second = *write.value;
      } else {
        entries_.emplace(write.key, *write.value);
      }
    } else if (found != entries_.end()) {
      entries_.erase(found);
    }
  }
}

absl::Status JournalWriter::CheckLock() const {
  if (!lock_->IsReplaced()) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      options_.directory, " now belongs to another rendezvous: its lock was replaced"));
}

absl::Status JournalWriter::Write() {
  if (absl::Status ours = CheckLock(); !ours.ok()) return ours;
  if (!name_synced_) {
    if (absl::Status synced = SyncName(); !synced.ok()) return synced;
  }
  absl::Status status = Append();
  // A file that accepts no writes is replaced by a new one. A full disk has no room for a new file.
  if (!status.ok() && !absl::IsResourceExhausted(status) && ++failures_ >= kTriesInTheSameFile &&
      BeginNewFile().ok()) {
    status = SyncName();
  }
  if (status.ok()) failures_ = 0;
  return status;
}

absl::Status JournalWriter::Append() {
  if (dirty_) {
    if (absl::Status cut = file_->Truncate(synced_bytes_); !cut.ok()) return cut;
    size_ = synced_bytes_;
    dirty_ = false;
  }
  if (pending_.empty()) return absl::OkStatus();
  dirty_ = true;
  if (absl::Status written = file_->Append(pending_); !written.ok()) return written;
  if (absl::Status synced = file_->Sync(); !synced.ok()) return synced;
  size_ += pending_.size();
  synced_bytes_ = size_;
  dirty_ = false;
  const bool large = pending_.capacity() > kSnapshotRecordBytes;
  pending_.clear();
  if (large) pending_.shrink_to_fit();
  return absl::OkStatus();
}

absl::Status JournalWriter::SyncName() {
  if (absl::Status synced = files_->SyncDirectory(options_.directory); !synced.ok()) return synced;
  name_synced_ = true;
  return absl::OkStatus();
}

void JournalWriter::Mark() {
  if (dirty_ || size_ != synced_bytes_) return;
  std::string mark;
  journal::AppendMark(file_id_, next_sequence_ - 1, synced_bytes_, &mark);
  if (file_->Append(mark).ok()) {
    size_ += mark.size();
  } else {
    dirty_ = true;
  }
}

bool JournalWriter::WorthCompacting() const {
  return size_ > compact_above_ &&
         static_cast<double>(size_) > options_.compact_ratio * static_cast<double>(entries_bytes_);
}

absl::Status JournalWriter::Compact() {
  absl::Status status = CheckLock();
  if (status.ok()) status = BeginNewFile();
  if (status.ok()) status = SyncName();  // if it fails, the next Write does it
  compact_above_ = status.ok() ? options_.compact_above_bytes : size_ + size_ / 4;
  return status;
}

absl::Status JournalWriter::BeginNewFile() {
  const std::uint64_t file_id = NewFileId();
  std::uint64_t sequence = next_sequence_;
  journal::FileHeader header;
  header.file_id = file_id;
  header.first_sequence = sequence;
  std::string bytes(journal::kFileHeaderBytes, '\0');
  Store::Batch part;
  std::uint64_t part_bytes = 0;
  const auto finish_part = [&] {
    journal::AppendBatch(file_id, sequence++, 0, part, &bytes);
    part.clear();
    part_bytes = 0;
  };
  for (const auto& [key, value] : entries_) {
    part.push_back({key, value});
    part_bytes += journal::EncodedBytes(key, value.size());
    if (part_bytes >= kSnapshotRecordBytes) finish_part();
  }
  if (!part.empty()) finish_part();
  header.named_bytes = bytes.size();
  bytes.replace(0, journal::kFileHeaderBytes, journal::EncodeFileHeader(header));

  absl::StatusOr<std::unique_ptr<JournalFile>> file = files_->Create(temporary_path_);
  absl::Status status = file.status();
  if (status.ok()) status = (*file)->Append(bytes);
  if (status.ok()) status = (*file)->Sync();
  if (status.ok()) status = files_->Rename(temporary_path_, path_);
  if (!status.ok()) {
    files_->Remove(temporary_path_).IgnoreError();
    return status;
  }
  // From here on the old file has no name. But until the folder is synced, the old file may be the
  // journal again after a power loss.
  file_ = *std::move(file);
  file_id_ = file_id;
  next_sequence_ = sequence;
  size_ = synced_bytes_ = bytes.size();
  dirty_ = false;
  name_synced_ = false;
  pending_.clear();
  return absl::OkStatus();
}

std::uint64_t JournalWriter::NewFileId() {
  std::random_device random;
  std::uint64_t id = 0;
  do {
    id = static_cast<std::uint64_t>(random()) << 32 | random();
  } while (id == file_id_);
  return id;
}

}  // namespace ddprun
